"""Slices of slices: XLA makes one of two that follow each other, and clamps the sum of their starts only."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw

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
