"""What signatures hold of communication and of the boundaries of computations: values, which text becomes and becomes again."""

from __future__ import annotations

import pickle

import pytest

from shardwright.boundary import NOTHING_STATED, Boundary
from shardwright.ir.context import load_module, module_text
from shardwright.ir.graph import Graph, Op
from shardwright.mesh import Mesh
from shardwright.notation.modules import read, write
from shardwright.notation.sdy.unsupported_syntax import prepare
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, AllToAll, ReduceScatter, ToUnreduced
from tests.notation.sdy.valid import VALID

MESH = Mesh([("a", 2), ("b", 2), ("c", 4)], name="mesh")
A, B, C = map(MESH.axis, "abc")
REDUCED = """\
sdy.mesh @mesh = <["a"=2, "b"=2, "c"=4]>
func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]AWAITING>}) -> tensor<8x8xf32> {
  %0 = sdy.all_reduce {"b"} %x out_sharding=<@mesh, [{}, {}]LEFT> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""
"""MLIR knows no sharding of an argument that has a carrier, and takes it for whole."""


def graph_of(text: str) -> Graph:
    return read(load_module(prepare(text)))


def first(graph: Graph, name: str) -> Op:
    return next(op for op in graph.walk() if op.name == name)


@pytest.mark.parametrize("text", VALID)
def test_text_becomes_values_and_the_same_text_again(text: str) -> None:
    module = load_module(text)
    assert module_text(write(read(module))) == module_text(module).replace("func.func @main", "func.func public @main")


def test_collectives_hold_their_steps_and_no_text() -> None:
    graph = graph_of(VALID[0])
    sub = MESH.axis("c", 1, 2)
    assert [op.signature.step for op in graph.walk()] == [
        AllGather(((B,), (), ())),
        AllSlice(((), (sub,), (B,))),
        AllToAll((((A,), 0, 1),)),
        None,  # a permute goes where its sharding says
        None,
        AllReduce((C,)),
        ReduceScatter(((), (B,), ())),
        None,
    ]
    assert not any(op.signature.attributes for op in graph.walk())


def test_computations_hold_their_boundary_and_no_text() -> None:
    graph = graph_of(VALID[1])
    manual, named = first(graph, "sdy.manual_computation"), first(graph, "sdy.named_computation")
    before, after = (TensorSharding.of(MESH, [["a"], []]) for _ in range(2))
    boundary = manual.signature.boundary
    assert [sharding.closed() for sharding in boundary.shardings] == [before, after]
    assert boundary.manual_axes == ("a",)
    assert manual.signature.attributes == ()
    assert named.signature.boundary.manual_axes == ()
    assert [name for name, _ in named.signature.attributes] == ["name"]
    assert first(graph, "stablehlo.tanh").signature.boundary == NOTHING_STATED


def test_signatures_with_values_go_to_other_processes() -> None:
    for text in VALID[:2]:
        graph = graph_of(text)
        again = pickle.loads(pickle.dumps(graph))
        assert [op.signature for op in again.walk()] == [op.signature for op in graph.walk()]
        assert module_text(write(again)) == module_text(write(graph))


def awaiting(kinds: str, left: str = "") -> str:
    return prepare(REDUCED.replace("AWAITING", kinds).replace("LEFT", left))


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ("", "sum"),
        (', unreduced={"b"}', "sum"),
        (', unreduced=product{"b"}', "product"),
        (', unreduced=product{"a"}, unreduced=xor{"b"}', "xor"),
    ],
)
def test_a_reduction_combines_as_its_operand_awaits(kinds: str, kind: str) -> None:
    module = load_module(awaiting(kinds))
    graph = read(module)
    assert first(graph, "sdy.all_reduce").signature.step == AllReduce((B,), kind)
    written = module_text(write(graph))
    assert written == module_text(module).replace("func.func @main", "func.func public @main")
    assert [op.signature for op in graph_of(written).walk()] == [op.signature for op in graph.walk()]


def test_equal_collectives_of_operands_that_await_other_kinds_are_told_apart() -> None:
    more = '}, %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced=product{"b"}>'
    text = awaiting(', unreduced=xor{"b"}>' + more[:-1]).replace(
        "  return", '  %1 = sdy.all_reduce {"b"} %y out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>\n  return'
    )
    steps = [op.signature.step for op in graph_of(text).walk() if op.name == "sdy.all_reduce"]
    assert steps == [AllReduce((B,), "xor"), AllReduce((B,), "product")]


def test_contributions_made_of_a_whole_are_a_step() -> None:
    text = awaiting("", ', unreduced={"b"}').replace("sdy.all_reduce", "sdy.replicated_to_unreduced")
    graph = graph_of(text)
    assert first(graph, "sdy.replicated_to_unreduced").signature.step == ToUnreduced((B,))
    assert 'sdy.replicated_to_unreduced {"b"} %arg0' in module_text(write(graph))


def test_an_op_without_results_states_where_it_runs() -> None:
    text = """\
sdy.mesh @one = <[], device_ids=[3]>
func.func @main(%x: tensor<4xf32>) {
  stablehlo.custom_call @log(%x) {has_side_effect = true, sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : (tensor<4xf32>) -> ()
  return
}
"""
    graph = graph_of(text)
    log = first(graph, "stablehlo.custom_call").signature
    assert [sharding.mesh.device_id(0) for sharding in log.boundary.out_shardings or ()] == [3]
    assert log.text("sdy.sharding") is None
    assert "sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>" in module_text(write(graph))
    assert "sdy.sharding" not in module_text(write(graph, shardings=False))


def test_boundaries_are_compared_by_value() -> None:
    shardings = (TensorSharding.of(MESH, [["a"]]),)
    assert Boundary(shardings, None, ("a",)) == Boundary(tuple(shardings), None, ("a",))
    assert Boundary(shardings) != Boundary(None, shardings)
    assert hash(Boundary(shardings)) == hash(pickle.loads(pickle.dumps(Boundary(shardings))))


def test_what_is_stated_becomes_layouts_that_are_partial_along_manual_axes_alone() -> None:
    sharding = TensorSharding.of(MESH, [["a"]], open=True, partial=["b", "c"])
    boundary = Boundary((sharding,), (sharding,), ("b",))
    assert boundary.free_axes == ("a",)
    assert boundary.layouts().shardings == 2 * (TensorSharding.of(MESH, [["a"]], partial=["b"]),)
