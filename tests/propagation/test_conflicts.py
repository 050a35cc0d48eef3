"""Small programs in which the order of visits decides; each once came out differently from the C++."""

from __future__ import annotations

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.oracles.shardy import run_pipeline
from tests.propagation.comparison import UP_TO_RESHARDS, differences

_UPDATE_SIDEWAYS = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%c: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}, %e: tensor<8x8xf32>,
                %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<i32>) -> tensor<8x8xf32> {
  %a = stablehlo.dot_general %c, %e, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = stablehlo.dynamic_update_slice %b, %a, %i, %i : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
  return %d : tensor<8x8xf32>
}"""

_DEAD_USER_MAKES_ANOTHER_SINGLE = """
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a0: tensor<2x8x4xf32>, %a3: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y", "x", ?}]>}) -> (tensor<2x8xf32>) {
  %v1 = stablehlo.transpose %a3, dims = [0] : (tensor<4xf32>) -> tensor<4xf32>
  %v3 = sdy.sharding_constraint %v1 <@mesh, [{}], replicated={"x"}> : tensor<4xf32>
  %v4 = stablehlo.multiply %v1, %a3 : tensor<4xf32>
  %v6 = stablehlo.add %v4, %v3 : tensor<4xf32>
  %v7 = stablehlo.tanh %v3 : tensor<4xf32>
  %v9 = sdy.manual_computation(%v6) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%v10: tensor<1xf32>) {
    sdy.return %v10 : tensor<1xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %v14 = stablehlo.multiply %v6, %v7 : tensor<4xf32>
  %v15 = stablehlo.dot_general %v9, %a0, contracting_dims = [0] x [2] : (tensor<4xf32>, tensor<2x8x4xf32>) -> tensor<2x8xf32>
  %v18 = stablehlo.negate %v15 : tensor<2x8xf32>
  return %v18 : tensor<2x8xf32>
}"""

_VALUE_USED_AROUND_AND_IN_A_LOOP = """
sdy.mesh @mesh = <["x"=3, "y"=6, "z"=8]>
func.func @main(%a0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)3}, {?}]>}) -> (tensor<8xf32>) {
  %v1 = stablehlo.constant dense<0> : tensor<i32>
  %v3:3 = stablehlo.while(%v4 = %a0, %v5 = %a0, %v6 = %v1) : tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {?}], replicated={"x"}>, <@mesh, [{"z"}, {?}], replicated={"y"}>, <@mesh, []>]>}
  cond {
    %v2 = stablehlo.constant dense<3> : tensor<i32>
    %v7 = stablehlo.compare LT, %v6, %v2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %v7 : tensor<i1>
  } do {
    %v8 = stablehlo.transpose %v4, dims = [0, 1] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %v9 = stablehlo.dot_general %a0, %v8, contracting_dims = [0] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    stablehlo.return %a0, %v9, %v6 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<i32>
  }
  %v11 = stablehlo.dot_general %v3#1, %v3#0, batching_dims = [0] x [1], contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8xf32>
  return %v11 : tensor<8xf32>
}"""

_GROUP_WITHOUT_AGREEMENT = """
sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
func.func @main(%a0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x", ?}]>}, %a1: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"y", ?}]>}, %a2: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  sdy.sharding_group %a2 group_id=0 : tensor<8x8xf32>
  sdy.sharding_group %a0 group_id=0 : tensor<8x8xf32>
  %v1 = stablehlo.tanh %a0 : tensor<8x8xf32>
  %v3 = stablehlo.tanh %a2 : tensor<8x8xf32>
  sdy.sharding_group %a1 group_id=0 : tensor<8x8xf32>
  %v4 = stablehlo.tanh %a1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"z"}, {?}]>]>} : tensor<8x8xf32>
  %v5 = stablehlo.add %a1, %v4 : tensor<8x8xf32>
  sdy.sharding_group %v4 group_id=0 : tensor<8x8xf32>
  return %v1, %v3, %v4, %v5 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}"""

_SIZE_ONE_AXES = """
sdy.mesh @mesh = <["one"=1, "x"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"one", "x"}p1, {"one":(1)1, ?}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}""".replace('"one":(1)1, ', "")

_UNREDUCED_BEHIND_A_BARRIER = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %o = stablehlo.optimization_barrier %a : tensor<8x8xf32>
  %t = stablehlo.tanh %b : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %o <@mesh, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
  %2 = sdy.sharding_constraint %t <@mesh, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
  return %1, %2 : tensor<8x8xf32>, tensor<8x8xf32>
}"""

_NAMED_COMPUTATION = """
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.named_computation<"g">(%a, %b) (%c: tensor<8x8xf32>, %d: tensor<8x8xf32>) {
    %1 = stablehlo.add %c, %d {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"y", ?}]>]>} : tensor<8x8xf32>
    sdy.return %1 : tensor<8x8xf32>
  } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = stablehlo.tanh %0 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}"""

_PROGRAMS = {
    "an update is sharded by what it updates, forward": _UPDATE_SIDEWAYS,
    "a dead user leaves a single one": _DEAD_USER_MAKES_ANOTHER_SINGLE,
    "a value used around and in a loop": _VALUE_USED_AROUND_AND_IN_A_LOOP,
    "a group whose members disagree": _GROUP_WITHOUT_AGREEMENT,
    "axes of size one": _SIZE_ONE_AXES,
    "an unreduced constraint behind a barrier": _UNREDUCED_BEHIND_A_BARRIER,
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", _PROGRAMS)
def test_conflicts_end_as_in_shardy(name: str) -> None:
    graph = read(load_module(_PROGRAMS[name]))
    assert differences(propagate(graph), run_pipeline(str(write(graph)), UP_TO_RESHARDS)) == []


def test_a_named_computation_is_one_with_what_is_around_it() -> None:
    graph = propagate(read(load_module(_NAMED_COMPUTATION)))
    (tanh,) = (op for op in graph.walk() if op.name == "stablehlo.tanh")
    assert repr(graph.shardings[tanh.results[0]]) == "[{x}, {y}]"
