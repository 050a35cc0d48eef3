"""What XLA on CPUs computes wrongly is written otherwise in the program that results are held against."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw

WHOLE, SPLIT = "[{}]", '[{"x"}]'


def sliced(start: int, dtype: str, sharding: str) -> str:
    return f"""
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}) -> tensor<4xf32> {{
  %i = stablehlo.constant dense<{start}> : tensor<{dtype}>
  %0 = stablehlo.dynamic_slice %a, %i, sizes = [4] : (tensor<8xf32>, tensor<{dtype}>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}}"""


def updated(start: int, dtype: str, sharding: str) -> str:
    return f"""
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}, %b: tensor<3xf32>) -> tensor<8xf32> {{
  %i = stablehlo.constant dense<{start}> : tensor<{dtype}>
  %0 = stablehlo.dynamic_update_slice %a, %b, %i : (tensor<8xf32>, tensor<3xf32>, tensor<{dtype}>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}}"""


def on_one_device(text: str, *arrays: np.ndarray) -> np.ndarray:
    """What the per-device program gives on a mesh of one device."""
    (result,) = sw.load(text.replace('"x"=2', '"x"=1')).plan().partition().compile()(*arrays)
    return np.asarray(result)


@pytest.mark.parametrize("sharding", [WHOLE, SPLIT])
@pytest.mark.parametrize(
    ("start", "dtype"), [(255, "ui8"), (200, "ui8"), (65535, "ui16"), (3, "ui32"), (2**64 - 1, "ui64")]
)
def test_constant_places_of_unsigned_types_are_as_stablehlo_clamps_them(start: int, dtype: str, sharding: str) -> None:
    a = np.arange(8, dtype=np.float32)
    spmd = sw.load(sliced(start, dtype, sharding)).plan().partition()
    verification = spmd.verify({"a": a})
    assert verification.ok
    assert any("unsigned type" in note for note in verification.notes)
    assert np.array_equal(on_one_device(sliced(start, dtype, sharding), a), a[min(start, 4) : min(start, 4) + 4])


@pytest.mark.parametrize("sharding", [WHOLE, SPLIT])
@pytest.mark.parametrize(("start", "dtype"), [(255, "ui8"), (2, "ui16")])
def test_updates_go_where_stablehlo_clamps_them(start: int, dtype: str, sharding: str) -> None:
    a, b = np.arange(8, dtype=np.float32), -np.ones(3, np.float32)
    spmd = sw.load(updated(start, dtype, sharding)).plan().partition()
    assert spmd.verify({"a": a, "b": b}).ok
    expected, first = a.copy(), min(start, 5)
    expected[first : first + 3] = b
    assert np.array_equal(on_one_device(updated(start, dtype, sharding), a, b), expected)


def test_places_of_signed_types_are_left_as_they_are() -> None:
    assert not sw.load(sliced(3, "i32", WHOLE)).plan().partition().verify().notes
