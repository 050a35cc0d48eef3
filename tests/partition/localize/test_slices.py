"""Slices: which rows are sent where they move, and of a slice of a slice that its start is clamped.

XLA makes one of two that follow each other, and clamps the sum of their starts only.
"""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import TPU_V5P

_SLICED = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %s: tensor<DTYPE>)
    -> (tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %z = stablehlo.constant dense<0> : tensor<DTYPE>
  %0 = stablehlo.dynamic_slice %a, %s, %z, sizes = [2, 3] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<8x3xf32>, tensor<DTYPE>, tensor<DTYPE>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}"""


@pytest.mark.parametrize(("dtype", "start"), [("i32", 9), ("i32", -4), ("i64", 7), ("ui8", 200), ("i8", 3)])
def test_a_start_beyond_the_end_is_clamped_before_the_result_is_split(dtype: str, start: int) -> None:
    spmd = sw.load(_SLICED.replace("DTYPE", dtype)).shard().partition()
    numpy_type = np.dtype(dtype.replace("ui", "uint") if dtype.startswith("u") else dtype.replace("i", "int"))
    inputs = {"a": np.arange(24, dtype=np.float32).reshape(8, 3), "s": np.array(start, numpy_type)}
    assert spmd.verify(inputs).ok


def test_of_a_half_at_an_unknown_place_nothing_is_added_up() -> None:
    """Gathering all sends as much as adding up half of it, which is work besides."""
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %at: tensor<i32>) -> tensor<32x8xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.dynamic_slice %a, %at, %zero, sizes = [32, 8] : (tensor<64x8xf32>, tensor<i32>, tensor<i32>) -> tensor<32x8xf32>
      return %0 : tensor<32x8xf32>
    }"""
    with sw.Session(hardware=TPU_V5P.with_a_link()):
        assert list(sw.load(text).plan().partition().traffic.kinds) == ["all_gather"]
