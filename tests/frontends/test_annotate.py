"""Shardings from outside find their arguments, and what finds none says what there is."""

from __future__ import annotations

from typing import Any

import pytest

import shardwright as sw
from shardwright.errors import Diagnostic, ShardingError
from shardwright.frontends.annotate import annotate
from shardwright.frontends.load import load_source
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh

MESH = Mesh(data=2, model=4)
PROGRAM = """
func.func @main(
    %0: tensor<8x16xf32> {tf.aliasing_output = 0 : i32} loc("params['layers'][0]['w']"),
    %1: tensor<8x16xf32> loc("params['layers'][1]['w']"),
    %2: tensor<8x16xf32> loc("batch"),
    %3: tensor<f32> loc("scale")) -> tensor<8x16xf32> {
  return %0 : tensor<8x16xf32>
}
"""
ANNOTATED = """
sdy.mesh @grid = <["x"=2, "y"=4]>
sdy.mesh @empty_mesh = <[]>
func.func @main(
    %0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x"}, {}]>} loc("a"),
    %1: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@empty_mesh, [{}, {?}]>} loc("b")) -> tensor<8x16xf32> {
  return %0 : tensor<8x16xf32>
}
"""


def graph(text: str = PROGRAM) -> Graph:
    return load_source(text).graph


def shardings_of(args: dict[str | int, Any], text: str = PROGRAM, mesh: Mesh | None = MESH) -> dict[str, str]:
    annotated = annotate(graph(text), mesh, args, "step.mlir")
    pairs = zip(annotated.main.argument_names, annotated.main.block.arguments, strict=True)
    return {name: repr(annotated.shardings[value]) for name, value in pairs if annotated.shardings[value] is not None}


def refused(args: dict[str | int, Any], text: str = PROGRAM, mesh: Mesh | None = MESH) -> Diagnostic:
    with pytest.raises(ShardingError) as caught:
        annotate(graph(text), mesh, args, "step.mlir")
    diagnostic = caught.value.diagnostic
    assert diagnostic.location
    assert diagnostic.cause
    assert diagnostic.remedy
    return diagnostic


@pytest.mark.parametrize("key", ["batch", 2, "2"])
def test_by_name_and_by_index(key: str | int) -> None:
    assert shardings_of({key: "data,-"}) == {"batch": "[{data}, {?}]"}


def test_by_a_path_as_jax_prints_it() -> None:
    assert shardings_of({"params['layers'][1]['w']": "-,model"}) == {"params/layers/1/w": "[{?}, {model}]"}


def test_a_shared_path_means_all_below_it() -> None:
    assert shardings_of({"params": ".,model"}) == dict.fromkeys(
        ("params/layers/0/w", "params/layers/1/w"), "[{}, {model}]"
    )


@pytest.mark.parametrize("order", [1, -1])
def test_the_more_specific_path_wins_in_any_order(order: int) -> None:
    args: dict[str | int, Any] = {"params": ".,model", "params/layers/1": "data,.", "params/layers/1/w": "-,-"}
    shardings = shardings_of(dict(list(args.items())[::order]))
    assert shardings == {"params/layers/0/w": "[{}, {model}]", "params/layers/1/w": "[{?}, {?}]"}


def test_a_path_that_is_only_the_beginning_of_a_name_is_none() -> None:
    assert refused({"param": "-,-"}).message == "the program has no argument 'param'"


def test_the_end_of_names_is_a_pattern_of_them() -> None:
    assert "the pattern '/w$', which names 2 arguments" in refused({"/w": "-,-"}).remedy
    assert shardings_of({"/w$": "-,model"}) == dict.fromkeys(
        ("params/layers/0/w", "params/layers/1/w"), "[{?}, {model}]"
    )


def test_what_is_given_wins_over_what_the_program_says() -> None:
    assert shardings_of({"a": "-,y"}, ANNOTATED, None)["a"] == "[{?}, {y}]"


def test_what_is_said_of_an_empty_mesh_is_said_of_the_mesh() -> None:
    annotated = annotate(graph(ANNOTATED), None, {})
    assert list(annotated.meshes) == ["grid"]
    sharding = annotated.shardings[annotated.main.block.arguments[1]]
    assert sharding is not None
    assert (sharding.mesh, repr(sharding)) == (Mesh(x=2, y=4, name="grid"), "[{}, {?}]")


def test_the_graph_given_is_left_as_it_was() -> None:
    before = graph()
    annotate(before, MESH, {"params": "data,model"})
    assert not before.meshes
    assert before.shardings == [None] * len(before.types)
    assert before.main.argument_attributes[0] == {"tf.aliasing_output": "0 : i32"}


def test_donation_no_longer_names_a_result() -> None:
    assert annotate(graph(), MESH, {}).main.argument_attributes[0] == {"jax.buffer_donor": "true"}


def test_an_unknown_name_comes_with_close_ones() -> None:
    diagnostic = refused({"params/layers/0/v": "-,-"})
    assert diagnostic.location == "step.mlir"
    assert "'params/layers/0/w', 'params/layers/1/w'" in diagnostic.cause


@pytest.mark.parametrize("key", [4, -1, "17"])
def test_an_index_out_of_range(key: str | int) -> None:
    assert refused({key: "-,-"}).remedy == "give an index from 0 to 3, or a name"


def test_a_sharding_that_does_not_fit_names_the_argument() -> None:
    diagnostic = refused({"params": "data,-,-"})
    assert diagnostic.op == "argument 0 of @main: params/layers/0/w, tensor<8x16xf32>"
    assert diagnostic.location == "params=data,-,-"


def test_no_mesh() -> None:
    assert refused({}, mesh=None).message == "the program has no mesh"


def test_another_mesh_than_the_programs_own() -> None:
    assert refused({}, ANNOTATED, Mesh(x=8)).message == "the program is on Mesh(x=2, y=4), Mesh(x=8) was given"


def test_the_programs_own_mesh_under_another_name() -> None:
    assert list(annotate(graph(ANNOTATED), Mesh(x=2, y=4), {}).meshes) == ["grid"]


GATHERED = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<4x8xf32> {
  %0 = sdy.all_gather [{"y"}, {}] %arg0 out_sharding=<@mesh, [{}, {}]> : tensor<4x8xf32>
  %1 = stablehlo.negate %0 : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
"""


def test_another_sharding_than_the_one_that_a_collective_changes() -> None:
    assert shardings_of({0: "y,-"}, GATHERED, None) == {"arg0": "[{y}, {?}]"}
    diagnostic = refused({0: "x,-"}, GATHERED, None)
    assert diagnostic.message == "argument 'arg0' cannot be given [{x}, {?}]"
    assert (diagnostic.op, diagnostic.location) == ("sdy.all_gather", "-:4")


def test_a_program_on_one_device_has_no_mesh_to_be_partitioned_over() -> None:
    text = """
    sdy.mesh @one = <[], device_ids=[0]>
    func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<8xf32> {
      %0 = stablehlo.add %a, %a : tensor<8xf32>
      return %0 : tensor<8xf32>
    }"""
    with pytest.raises(ShardingError, match="all that it is sharded over is one device") as caught:
        sw.load(text).plan()
    assert "--mesh" in str(caught.value)
    assert sw.load(text).shard(sw.Mesh(x=2)).partition().verify().ok


OF_ONE = """
sdy.mesh @mesh = <["S"=1]> {stablehlo.mesh = {axes = [{name = "S", size = 1 : i64}]}}
func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"S"}, {}]>}) -> tensor<8x4xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"S"}, {}]> : tensor<8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
"""


def test_what_is_said_on_a_mesh_of_one_device_leaves_another_open() -> None:
    program = sw.load(OF_ONE)
    plan = program.shard({"data": 4}, {"x": "data,-"})
    assert plan.results == {"result0": sw.TensorSharding.of(sw.Mesh(data=4), [["data"], []])}
    assert '["data"=4]' in plan.module()
    assert '"S"' not in plan.module()
    assert plan.partition().outcome.bytes_sent == 0
    assert plan.partition().verify().ok
    assert program.apply(plan.saved).arguments == plan.arguments
    assert program.shard({"S": 1}).mesh.size == program.plan().mesh.size == 1


def test_a_mesh_of_one_device_stays_where_an_op_says_more_of_it() -> None:
    manual = OF_ONE.replace(
        "%1 = stablehlo.tanh %0 : tensor<8x4xf32>",
        """%1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{"S"}, {}]>] out_shardings=[<@mesh, [{"S"}, {}]>]
          manual_axes={"S"} (%arg0: tensor<8x4xf32>) {
        %2 = stablehlo.tanh %arg0 : tensor<8x4xf32>
        sdy.return %2 : tensor<8x4xf32>
      } : (tensor<8x4xf32>) -> tensor<8x4xf32>""",
    )
    with pytest.raises(ShardingError, match=r"the program is on Mesh\(S=1\), Mesh\(data=4\) was given"):
        sw.load(manual).shard({"data": 4})


ON_ALL = """
sdy.mesh @mesh = <["S"=8]>
func.func @main(
    %x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
    %w: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {?}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def test_what_is_on_all_devices_of_a_mesh_is_so_on_another() -> None:
    """As arrays are that were made under `jax.set_mesh`."""
    assert shardings_of({}, ON_ALL) == {"x": "[{}, {}]", "w": "[{}, {?}]"}
    plan = sw.load(ON_ALL).shard({"data": 2, "model": 4}, {"x": "data,-"})
    assert plan.arguments["x"] == sw.TensorSharding.of(MESH, [["data"], []])
    assert '"S"' not in plan.module()
    assert plan.partition().verify().ok
    assert sw.load(ON_ALL).apply(plan.saved).arguments == plan.arguments
    assert sw.load(ON_ALL).shard({"S": 8}, {"w": "-,S"}).partition().verify().ok


def test_another_mesh_is_none_where_a_sharding_names_an_axis() -> None:
    one = ON_ALL.replace("[{}, {?}]", '[{}, {?}], replicated={"S"}')
    assert refused({}, one).message == "the program is on Mesh(S=8), Mesh(data=2, model=4) was given"
