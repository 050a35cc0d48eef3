"""Axes of dimensions that are read in their own sizes go to another one where that is worth it."""

from __future__ import annotations

import pytest

import shardwright as sw

CONVOLUTION = """sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%x: tensor<8x24x24x48xf32>,
    %k: tensor<3x3x48x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}, {?}, {?}]>})
    -> (tensor<8x24x24x48xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {?}, {?}, {?}]>}) {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<8x24x24x48xf32>, tensor<3x3x48x48xf32>) -> tensor<8x24x24x48xf32>
  return %0 : tensor<8x24x24x48xf32>
}
"""


def test_a_small_kernel_is_gathered_rather_than_that_its_image_moves() -> None:
    """Three rows over two devices are padded to four, of 3·48·48 f32: a device gets the two that it has not."""
    with sw.Session(hardware=sw.hardware("tpu_v5p").with_a_link()):
        spmd = sw.load(CONVOLUTION).plan().partition()
    assert spmd.traffic.total.executed_bytes == 2 * 3 * 48 * 48 * 4 == 55296
    assert "all_to_all" not in spmd.module("local")


@pytest.mark.parametrize("rows", [130, 7])
def test_what_is_sorted_moves_with_its_result(rows: int) -> None:
    text = f"""sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<{rows}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
    -> (tensor<{rows}x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
  %0 = "stablehlo.sort"(%x) <{{dimension = 0 : i64}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}) : (tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32>
  return %0 : tensor<{rows}x64xf32>
}}
"""
    local = sw.load(text).plan().partition().module("local")
    assert local.count("stablehlo.all_to_all") == 2
    assert "all_gather" not in local
