"""What happens to a program before and after propagation, on whole programs in text."""

from __future__ import annotations

import pytest

from shardwright.boundary import with_manual_axes, without_manual_axes
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.modules import read
from shardwright.propagation import propagate
from shardwright.propagation.steps.boundary import divisible, whole_axes, without_size_one_axes
from shardwright.sharding import DimSharding, TensorSharding

_MESH = Mesh(x=2, y=4, one=1)


def _propagated(body: str, mesh: str = '"x"=2, "y"=2') -> Graph:
    return propagate(read(load_module(f"sdy.mesh @mesh = <[{mesh}]>\n{body}")))


def _shardings(graph: Graph, name: str) -> list[str]:
    return [repr(graph.shardings[op.results[0]]) for op in graph.walk() if op.name == name]


def test_a_shared_constant_is_sharded_for_each_user() -> None:
    graph = _propagated("""
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
                %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %c = stablehlo.constant dense<1.0> : tensor<8xf32>
  %0 = stablehlo.add %a, %c : tensor<8xf32>
  %1 = stablehlo.add %b, %c : tensor<8xf32>
  %2 = stablehlo.multiply %a, %c : tensor<8xf32>
  return %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}""")
    assert _shardings(graph, "stablehlo.constant") == ["[{x}]", "[{y}]"]  # two of three were alike


def test_a_constant_may_be_made_in_thousands_of_steps() -> None:
    steps = "\n".join(f"%c{number + 1} = stablehlo.negate %c{number} : tensor<8xf32>" for number in range(3000))
    graph = _propagated(f"""
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<8xf32> {{
  %c0 = stablehlo.constant dense<1.0> : tensor<8xf32>
  {steps}
  %0 = stablehlo.add %a, %c3000 : tensor<8xf32>
  return %0 : tensor<8xf32>
}}""")
    assert _shardings(graph, "stablehlo.constant") == ["[{x}]"]


def test_a_loop_ties_initial_value_argument_and_result() -> None:
    graph = _propagated("""
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %n: tensor<i32>) -> tensor<8xf32> {
  %w:2 = stablehlo.while(%v = %a, %i = %n) : tensor<8xf32>, tensor<i32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %0 = stablehlo.tanh %v : tensor<8xf32>
    stablehlo.return %0, %i : tensor<8xf32>, tensor<i32>
  }
  return %w#0 : tensor<8xf32>
}""")
    (loop,) = (op for op in graph.walk() if op.name == "stablehlo.while")
    values = [loop.results[0], *(region.arguments[0] for region in loop.regions)]
    assert {repr(graph.shardings[value]) for value in values} == {"[{x}]"}
    assert repr(graph.main.result_shardings[0]) == "[{x}]"


def test_a_closed_constraint_is_applied_to_its_input_and_becomes_a_reshard() -> None:
    graph = _propagated("""
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
  return %1 : tensor<8xf32>
}""")
    assert _shardings(graph, "stablehlo.tanh") == ["[{x}]"]
    assert _shardings(graph, "sdy.reshard") == ["[{x}]"]
    assert repr(graph.shardings[graph.main.block.arguments[0]]) == "[{x}]"


def test_a_group_is_sharded_alike() -> None:
    graph = _propagated("""
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8xf32>) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=3 : tensor<8xf32>
  sdy.sharding_group %b group_id=3 : tensor<8xf32>
  return %b : tensor<8xf32>
}""")
    assert [repr(graph.shardings[value]) for value in graph.main.block.arguments] == ["[{x}]", "[{x}]"]
    assert [op.name for op in graph.walk()] == ["func.return"]


def test_a_group_across_a_manual_boundary_is_refused() -> None:
    with pytest.raises(ShardingError, match="crosses the boundary"):
        _propagated("""
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=0 : tensor<8xf32>
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"x"} (%b: tensor<8xf32>) {
    sdy.sharding_group %b group_id=0 : tensor<8xf32>
    sdy.return %b : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}""")


def test_dead_ops_disappear_and_ops_with_effects_stay() -> None:
    graph = _propagated("""
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = stablehlo.negate %0 : tensor<8xf32>
  %2 = stablehlo.custom_call @log(%a) {has_side_effect = true} : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}""")
    assert [op.name for op in graph.walk()] == ["stablehlo.custom_call", "func.return"]


def test_a_program_without_a_mesh_keeps_its_missing_shardings() -> None:
    graph = propagate(
        read(load_module("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }"))
    )
    assert graph.shardings == [None]


def test_a_dynamic_shape_is_refused() -> None:
    graph = read(load_module("func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> { return %a : tensor<8xf32> }"))
    graph.types[0] = TensorType(None, "tensor<?xf32>")
    with pytest.raises(ShardingError, match="static shape"):
        propagate(graph)


def test_boundary_shardings() -> None:
    x, y = _MESH.axis("x"), _MESH.axis("y")
    both = TensorSharding(_MESH, (DimSharding((x, y), True),))
    assert divisible(both, (4,)).axes == ((x, _MESH.axis("y", 1, 2)),)
    assert whole_axes(divisible(both, (4,))).axes == ((x,),)
    closed = TensorSharding(_MESH, (DimSharding((_MESH.axis("y", 1, 2),)),))
    assert whole_axes(closed) == closed


def test_axes_of_size_one_are_taken_away_with_priorities_they_leave_without_meaning() -> None:
    sharding = TensorSharding(_MESH, (DimSharding((_MESH.axis("one"),), False, 2),))
    assert without_size_one_axes(sharding) == TensorSharding(_MESH, (DimSharding(),))


def test_manual_axes_are_seen_outside_only() -> None:
    outside = TensorSharding.of(_MESH, [["x", "y"]])
    inside = without_manual_axes(outside, ("x",))
    assert inside.axes == ((_MESH.axis("y"),),)
    assert with_manual_axes(outside, inside, ("x",)) == outside
