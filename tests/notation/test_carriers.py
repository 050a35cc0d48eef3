"""Shardings that sdy's parser does not know: as text in a module, in the graph, and back; and their partitioning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.notation.carriers import carrier_text, needs_carrier, parse_carrier
from shardwright.notation.modules import read, write
from shardwright.partition.materialize import materialize
from shardwright.propagation import propagate
from shardwright.sharding import TensorSharding

pytestmark = pytest.mark.usefixtures("sums_only")

MESH = Mesh(x=2, y=4)
PLAIN = TensorSharding.of(MESH, [["x"], []])
OFFSETS = replace(PLAIN, offsets=((0, 3, 8), None))
HALO = replace(PLAIN, halos=((1, 2), None))
PRODUCT = TensorSharding.of(MESH, [["x"], []], partial=["y"], kind="product")
MAXIMUM = TensorSharding.of(MESH, [["x"], []], partial=["y"], kind="max")
SPLIT_ALL = TensorSharding.of(MESH, [["x"], []], partial=["y"], kind="min")


def graph_of(text: str) -> Graph:
    return read(load_module('sdy.mesh @mesh = <["x"=2, "y"=4]>\n' + text), "program.mlir")


def one_of_each(argument: str = "", op: str = "", constraint: str = "", result: str = "") -> str:
    """A program with carriers where they are given."""

    def carried(name: str, text: str) -> str:
        quoted = text.replace('"', "\\22")
        return f' {{{name} = "{quoted}"}}' if text else ""

    on_op = carried("shardwright.shardings", op).replace(' = "', ' = ["').replace('"}', '"]}')
    stated = carried("sharding", constraint or "#sdy.sharding<@mesh, [{?}, {?}]>")
    return (
        f"func.func @main(%a: tensor<8x4xf32>{carried('shardwright.sharding', argument)})"
        f" -> (tensor<8x4xf32>{carried('shardwright.sharding', result)}) {{\n"
        f"  %0 = stablehlo.negate %a{on_op} : tensor<8x4xf32>\n"
        f'  %1 = "shardwright.constraint"(%0){stated} : (tensor<8x4xf32>) -> tensor<8x4xf32>\n'
        "  return %1 : tensor<8x4xf32>\n}\n"
    )


@pytest.mark.parametrize("sharding", [OFFSETS, HALO, MAXIMUM, SPLIT_ALL], ids=repr)
def test_a_carrier_is_read_wherever_it_stands_and_written_again(sharding: TensorSharding) -> None:
    text = carrier_text(sharding, (8, 4))
    graph = graph_of(one_of_each(text, text, text, text))
    negate, constraint, terminator = graph.main.block.ops
    assert constraint.name == "sdy.sharding_constraint"
    values = [graph.main.block.arguments[0], negate.results[0], constraint.results[0]]
    assert [graph.shardings[value] for value in values] == [sharding] * 3
    assert graph.main.result_shardings == [sharding]
    assert terminator.operands == constraint.results
    written = write(graph)
    assert written.operation.verify()
    again = module_text(written)
    assert again.count("shardwright.") == 4
    assert "sdy.sharding =" not in again
    assert "sdy.sharding_constraint" not in again
    assert module_text(write(read(load_module(again)))) == again


def test_what_sdy_can_say_is_written_without_carriers() -> None:
    text = "mesh.sharding @mesh split_axes = [[0], []]"
    written = module_text(write(graph_of(one_of_each(text, text, text, text))))
    assert "shardwright" not in written
    assert written.count('<@mesh, [{"x"}, {}]>') == 4


@pytest.mark.parametrize(
    "text",
    [
        'P("x", None)',
        '#sdy.sharding<@mesh, [{"x"}, {}]>',
        "#mesh.shard<@mesh, [[0]]>",
        "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
    ],
)
def test_a_carrier_may_be_in_any_notation(text: str) -> None:
    graph = graph_of(one_of_each(argument=text))
    sharding = graph.shardings[graph.main.block.arguments[0]]
    assert sharding is not None
    assert sharding.axes == PLAIN.axes


def test_results_of_which_nothing_is_carried_are_open_when_written() -> None:
    graph = graph_of(
        "func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {\n"
        '  %0:2 = "stablehlo.optimization_barrier"(%a, %a) {shardwright.shardings = ["", '
        f'"{carrier_text(HALO)}"]}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)\n'
        "  return %0#0 : tensor<8x4xf32>\n}\n"
    )
    first, second = graph.main.block.ops[0].results
    assert (graph.shardings[first], graph.shardings[second]) == (None, HALO)
    again = read(load_module(module_text(write(graph))))
    assert again.shardings[again.main.block.ops[0].results[0]] == TensorSharding.of(MESH, [[], []], open=True)
    assert again.shardings[again.main.block.ops[0].results[1]] == HALO


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (one_of_each(op="mesh.sharding @other split_axes = [[0]]"), "unknown mesh @other", 3),
        (one_of_each(argument="mesh.sharding @mesh split_axes = [[7]]"), "there is no mesh axis 7", 2),
        (one_of_each(constraint="nonsense"), "not a sharding in any notation", 4),
        (one_of_each(result="mesh.sharding @mesh split_axes = [[0], [], []]"), "3 lists of split axes", 2),
        (one_of_each(op=carrier_text(OFFSETS)).replace('["', '["", "'), "2 carriers of shardings are given for 1", 3),
        (one_of_each().replace("sharding = ", "other = "), "0 carriers of shardings are given for 1", 4),
        (one_of_each(argument="x").replace('= "x"', "= 3"), "the carrier of a sharding is 3", 2),
        (one_of_each(op="x").replace('["x"]', "[3]"), "the carrier of a sharding is 3", 3),
        (one_of_each(op="x").replace('["x"]', "3"), "the carrier of a sharding is 3", 3),
    ],
)
def test_a_bad_carrier_is_refused_at_its_line(text: str, message: str, line: int) -> None:
    with pytest.raises(ShardingError) as caught:
        graph_of(text)
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.location == f"program.mlir:{line}"


def test_with_several_meshes_a_carrier_must_name_its_own() -> None:
    with pytest.raises(ShardingError, match="the mesh is not known"):
        parse_carrier("split_axes = [[0]]", (8,), {"a": Mesh(x=2), "b": Mesh(x=2)})
    assert parse_carrier("split_axes = [[0]]", (8,), {"a": Mesh(x=2, name="a")}).mesh.name == "a"


def test_a_carrier_is_needed_for_offsets_halos_and_kinds_other_than_sum_only() -> None:
    partial_sum = TensorSharding.of(MESH, [["x"], []], partial=["y"])
    assert [needs_carrier(one) for one in (PLAIN, partial_sum, OFFSETS, HALO, MAXIMUM)] == [False] * 2 + [True] * 3


def test_several_kinds_and_open_dimensions_are_carried_together() -> None:
    sharding = TensorSharding.of(MESH, [[]], partial=["x"], open=True)
    both = replace(
        sharding, partial=(*sharding.partial, *TensorSharding.of(MESH, [], partial=["y"], kind="or").partial)
    )
    assert parse_carrier(carrier_text(both), (8,), {"mesh": MESH}) == both


@pytest.mark.parametrize(
    "places", [{"argument": OFFSETS}, {"argument": HALO}, {"op": HALO}, {"constraint": OFFSETS}, {"result": OFFSETS}]
)
def test_explicit_programs_have_shards_of_one_size(places: dict[str, TensorSharding]) -> None:
    text = one_of_each(**{place: carrier_text(sharding) for place, sharding in places.items()})
    graph = materialize(propagate(graph_of(text))).graph
    assert not any(sharding.offsets or sharding.halos for sharding in graph.different_shardings)


def test_arguments_that_no_collective_completes_are_refused() -> None:
    graph = propagate(graph_of(one_of_each(argument=carrier_text(PRODUCT))))
    with pytest.raises(ShardingError) as caught:
        materialize(graph)
    assert "is partial by product" in caught.value.diagnostic.message
    assert caught.value.diagnostic.op
    assert caught.value.diagnostic.location.startswith("program.mlir")
    assert caught.value.diagnostic.remedy


def test_a_propagated_program_with_carriers_can_be_written_and_read() -> None:
    graph = propagate(graph_of(one_of_each(op=carrier_text(PLAIN), constraint=carrier_text(HALO))))
    again = read(load_module(module_text(write(graph))))
    assert [again.shardings[op.results[0]] for op in again.main.block.ops[:-1]] == [PLAIN, HALO]


def test_a_value_that_may_stay_partial_by_a_maximum_is_reduced_and_can_be_partitioned() -> None:
    graph = graph_of(one_of_each(op=carrier_text(MAXIMUM)))
    explicit = materialize(propagate(graph))
    assert not any(sharding is not None and sharding.partial for sharding in explicit.graph.shardings)


def test_a_sharding_shows_its_offsets_and_halos() -> None:
    assert repr(OFFSETS) == "[{x}, {}] offsets={0: [0, 3, 8]}"
    assert repr(HALO) == "[{x}, {}] halos={0: [1, 2]}"
    long = replace(TensorSharding.of(Mesh(x=64), [["x"]]), offsets=(tuple(range(65)),))
    assert repr(long).endswith("15, …]}")
