"""Programs in which not every value says how it lies on the mesh that is padded for."""

from __future__ import annotations

import pytest

import shardwright as sw
import shardwright.passes.all
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.passes.pipeline import parse_pipeline, run_step

ON_ONE_DEVICE = """
sdy.mesh @mesh = <["x"=2]>
sdy.mesh @one = <[], device_ids=[1]>
func.func @main(%a: tensor<7x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<7x8xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<7x8xf32>
  return %0 : tensor<7x8xf32>
}
"""
RESULT_ALONE = """
sdy.mesh @mesh = <["x"=3]>
func.func @main(%a: tensor<8x4xf32>) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.tanh %a : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
"""
REDUCED = """
sdy.mesh @mesh = <["x"=3]>
func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %b: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""
FOREIGN_REGION = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<7xf32> {
  %0 = scf.execute_region -> tensor<7xf32> {
    scf.yield %a : tensor<7xf32>
  }
  return %0 : tensor<7xf32>
}
"""


def test_a_value_on_one_device_is_padded_for_those_of_the_mesh() -> None:
    assert sw.load(ON_ONE_DEVICE).plan().partition().verify().ok


@pytest.mark.parametrize("text", [RESULT_ALONE, REDUCED])
def test_what_says_nothing_of_where_it_lies_is_whole(text: str) -> None:
    """A pass takes programs that were not propagated."""
    module = load_module(text)
    for step in parse_pipeline("builtin.module(sdy-convert-global-to-local)"):
        run_step(module, step)
    assert module.operation.verify()


def test_an_op_with_regions_of_another_dialect_is_refused_by_name() -> None:
    """It has a result without an operand: nothing is carried through it."""
    with pytest.raises(ShardingError, match=r"scf\.execute_region is not known") as refused:
        sw.load(FOREIGN_REGION).plan().partition()
    assert refused.value.diagnostic.location == "-:4"
