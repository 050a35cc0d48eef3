"""Batch dimensions made explicit: where they are such, and with the same numbers after as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shardwright.passes.all  # noqa: F401 (registers the passes)
from shardwright.ir.context import context, ir, load_module, module_text, stablehlo
from shardwright.passes.pipeline import parse_pipeline, run_step

_NAME = "sdy-explicit-gather-scatter-batching"

_GATHER = """
func.func @main(%x: tensor<4x5xf32>, %i: tensor<4x3x1xi32>) -> tensor<4x3xf32> {{
  {0}
  %1 = stablehlo.concatenate {1}, dim = 2 : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x2xi32>
  %2 = "stablehlo.gather"(%x, %1) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
    start_index_map = {2}, index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}}>
    : (tensor<4x5xf32>, tensor<4x3x2xi32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}}
"""
_IOTA = "%0 = stablehlo.iota dim = 0 : tensor<4x3x1xi32>"
_BROADCAST = """%l = stablehlo.iota dim = 0 : tensor<4xi32>
  %0 = stablehlo.broadcast_in_dim %l, dims = [0] : (tensor<4xi32>) -> tensor<4x3x1xi32>"""
_RESHAPED = """%l = stablehlo.iota dim = 0 : tensor<4x3xi32>
  %0 = stablehlo.reshape %l : (tensor<4x3xi32>) -> tensor<4x3x1xi32>"""
_WRAPPED = """%j = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %z = stablehlo.constant dense<0> : tensor<4x3x1xi32>
  %s = stablehlo.constant dense<4> : tensor<4x3x1xi32>
  %t = stablehlo.compare LT, %j, %z : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x1xi1>
  %w = stablehlo.add %j, %s : tensor<4x3x1xi32>
  %0 = stablehlo.select %t, %w, %j : tensor<4x3x1xi1>, tensor<4x3x1xi32>"""
_CLAMPED = """%j = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.constant dense<{0}> : tensor<i32>
  %0 = stablehlo.clamp %z, %j, %s : (tensor<i32>, tensor<4x3x1xi32>, tensor<i32>) -> tensor<4x3x1xi32>"""

_OTHER_DIM = "%0 = stablehlo.iota dim = 1 : tensor<4x3x1xi32>"
_OTHER_BROADCAST = """%l = stablehlo.iota dim = 0 : tensor<3xi32>
  %0 = stablehlo.broadcast_in_dim %l, dims = [1] : (tensor<3xi32>) -> tensor<4x3x1xi32>"""
_OTHER_RESHAPE = """%l = stablehlo.iota dim = 0 : tensor<12xi32>
  %0 = stablehlo.reshape %l : (tensor<12xi32>) -> tensor<4x3x1xi32>"""
_CHOSEN = """%j = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %t = stablehlo.compare GT, %i, %j : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x1xi1>
  %w = stablehlo.negate %j : tensor<4x3x1xi32>
  %0 = stablehlo.select %t, %w, %j : tensor<4x3x1xi1>, tensor<4x3x1xi32>"""

_BATCHED = (_IOTA, _BROADCAST, _RESHAPED, _WRAPPED, _CLAMPED.format(3))
_NOT_BATCHED = (_OTHER_DIM, _OTHER_BROADCAST, _OTHER_RESHAPE, _CHOSEN, _CLAMPED.format(2))


def _batched(text: str) -> str:
    module = load_module(text)
    for step in parse_pipeline(f"builtin.module(func.func({_NAME}))"):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


def _evaluated(text: str, *arguments: Any) -> list[float]:
    """What StableHLO's reference interpreter computes."""
    with context():
        (result,) = stablehlo.eval_module(load_module(text), [ir.DenseElementsAttr.get(each) for each in arguments])
    return np.array(result).ravel().tolist()


@pytest.mark.parametrize("rows", _BATCHED)
@pytest.mark.parametrize("order", [("%0, %i", "[0, 1]"), ("%i, %0", "[1, 0]")])
def test_rows_numbered_by_an_iota_become_a_batch_dimension(rows: str, order: tuple[str, str]) -> None:
    text = _GATHER.format(rows, *order)
    after = _batched(text)
    assert "operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1]" in after
    assert "concatenate" not in after
    x, i = np.arange(20, dtype=np.float32).reshape(4, 5), np.arange(12, dtype=np.int32).reshape(4, 3, 1) % 5
    assert _evaluated(after, x, i) == _evaluated(text, x, i)


@pytest.mark.parametrize("rows", _NOT_BATCHED)
def test_other_indices_stay_indices(rows: str) -> None:
    assert "batching_dims" not in _batched(_GATHER.format(rows, "%0, %i", "[0, 1]"))


_WIDE = """
func.func @main(%x: tensor<4x5x6xf32>, %i: tensor<4x3x2xi32>) -> tensor<4x3xf32> {{
  %0 = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %1 = stablehlo.concatenate %i, %0, dim = 2 : (tensor<4x3x2xi32>, tensor<4x3x1xi32>) -> tensor<4x3x3xi32>
  %2 = "stablehlo.gather"(%x, %1) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1, 2],
    start_index_map = {0}, index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 1>, indices_are_sorted = true}}>
    : (tensor<4x5x6xf32>, tensor<4x3x3xi32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}}
"""


def test_components_are_counted_through_operands_of_several() -> None:
    text = _WIDE.format("[1, 2, 0]")
    after = _batched(text)
    assert "batching_dims = [0]" in after
    assert "indices_are_sorted = false" in after
    x, i = np.arange(120, dtype=np.float32).reshape(4, 5, 6), np.arange(24, dtype=np.int32).reshape(4, 3, 2) % 5
    assert _evaluated(after, x, i) == _evaluated(text, x, i)
    assert "batching_dims" not in _batched(_WIDE.format("[1, 0, 2]"))


def test_an_iota_that_counts_from_the_start_again_is_no_index() -> None:
    text = """
func.func @main(%x: tensor<300x5xf32>, %i: tensor<300x1xi8>) -> tensor<300xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<300x1xi8>
  %1 = stablehlo.concatenate %0, %i, dim = 1 : (tensor<300x1xi8>, tensor<300x1xi8>) -> tensor<300x2xi8>
  %2 = "stablehlo.gather"(%x, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
    start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}>
    : (tensor<300x5xf32>, tensor<300x2xi8>) -> tensor<300xf32>
  return %2 : tensor<300xf32>
}"""
    assert "batching_dims" not in _batched(text)


def test_scattered_rows_become_a_batch_dimension() -> None:
    text = """
func.func @main(%x: tensor<4x5xf32>, %i: tensor<4x3x1xi32>, %u: tensor<4x3xf32>) -> tensor<4x5xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<4x3x1xi32>
  %1 = stablehlo.concatenate %0, %i, dim = 2 : (tensor<4x3x1xi32>, tensor<4x3x1xi32>) -> tensor<4x3x2xi32>
  %2 = "stablehlo.scatter"(%x, %1, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1],
    scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4x5xf32>, tensor<4x3x2xi32>, tensor<4x3xf32>) -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}"""
    after = _batched(text)
    assert "input_batching_dims = [0], scatter_indices_batching_dims = [0]" in after
    x, i = np.arange(20, dtype=np.float32).reshape(4, 5), np.arange(12, dtype=np.int32).reshape(4, 3, 1) % 5
    u = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert _evaluated(after, x, i, u) == _evaluated(text, x, i, u)
