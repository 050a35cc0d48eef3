"""Cumulative sums and products as JAX writes them for GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw
from shardwright.ir.context import is_registered
from shardwright.ir.scans import with_windows
from tests.frontends.devices import eight_devices

eight_devices()

NEEDS_SCANS = pytest.mark.skipif(not is_registered("chlo.scan"), reason="this jaxlib has no chlo.scan")
MESH = 'sdy.mesh @m = <["x"=2]>'


def scanned(combining: str = "add", start: str = "0.0", dim: int = 1, is_reverse: bool = False) -> str:
    slice = ("tensor<6xf32>", "tensor<4xf32>")[dim]
    return f"""
{MESH}
func.func @main(%x: tensor<4x6xf32> {{sdy.sharding = #sdy.sharding<@m, [{{"x"}}, {{}}]>}})
    -> (tensor<4x6xf32>, {slice}) {{
  %c = stablehlo.constant dense<{start}> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> {slice}
  %1:2 = chlo.scan(%x) inits (%0) dimension={dim}
      attributes {{is_associative = true, is_reverse = {str(is_reverse).lower()}}} {{
  ^bb0(%a: {slice}, %b: {slice}):
    %s = stablehlo.{combining} %a, %b : {slice}
    stablehlo.return %s, %s : {slice}, {slice}
  }} : (tensor<4x6xf32>, {slice}) -> (tensor<4x6xf32>, {slice})
  return %1#0, %1#1 : tensor<4x6xf32>, {slice}
}}"""


@NEEDS_SCANS
@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("combining", "start", "of"),
    [("add", "0.0", np.add), ("multiply", "1.0", np.multiply), ("maximum", "0xFF800000", np.maximum)],
)
def test_a_scan_gives_what_numpy_does(combining: str, start: str, of: np.ufunc, dim: int, is_reverse: bool) -> None:
    x = np.random.default_rng(0).uniform(-2, 2, (4, 6)).astype(np.float32)
    spmd = sw.load(scanned(combining, start, dim, is_reverse)).plan().partition()
    result, carry = spmd.compile(trial=False)(x)
    turned = np.flip(x, dim) if is_reverse else x
    expected = of.accumulate(turned, axis=dim)
    np.testing.assert_allclose(np.asarray(carry), expected.take(-1, axis=dim), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(result), np.flip(expected, dim) if is_reverse else expected, rtol=1e-5)
    assert spmd.verify().ok


@NEEDS_SCANS
def test_rows_are_summed_where_they_lie() -> None:
    spmd = sw.load(scanned()).plan().partition()
    assert not spmd.traffic.kinds
    assert "stablehlo.reduce_window" in spmd.module("local")
    assert "chlo.scan" not in spmd.module("propagated")


@NEEDS_SCANS
def test_a_scan_that_is_no_window_is_refused_with_its_name() -> None:
    text = scanned().replace("%s = stablehlo.add %a, %b", "%s = stablehlo.subtract %a, %b")
    assert with_windows(text) == text
    with pytest.raises(sw.ShardingError, match=r"chlo\.scan is not known"):
        sw.load(text).plan().partition()


def test_texts_without_scans_stay_as_they_are() -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    assert with_windows(text) is text
