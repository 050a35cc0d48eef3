"""Collectives without a channel whose groups name devices, as they stand in public texts and are written by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shardwright as sw
from shardwright.runtime.execute import execute_local

GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
ADD = """({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""
COLLECTIVES = {
    "all_gather": f'"stablehlo.all_gather"(%q) <{{all_gather_dim = 0 : i64, {GROUPS}}}> '
    ": (tensor<2x4xf32>) -> tensor<4x4xf32>",
    "all_reduce": f'"stablehlo.all_reduce"(%q) <{{{GROUPS}}}> {ADD} : (tensor<2x4xf32>) -> tensor<2x4xf32>',
    "reduce_scatter": f'"stablehlo.reduce_scatter"(%q) <{{scatter_dimension = 0 : i64, {GROUPS}}}> {ADD} '
    ": (tensor<2x4xf32>) -> tensor<1x4xf32>",
    "all_to_all": f'"stablehlo.all_to_all"(%q) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64, '
    f"split_count = 2 : i64, {GROUPS}}}> : (tensor<2x4xf32>) -> tensor<1x8xf32>",
    "collective_permute": '"stablehlo.collective_permute"(%q) '
    "<{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<2x4xf32>) -> tensor<2x4xf32>",
}
X = np.arange(16, dtype=np.float32).reshape(4, 4)
TOP, BOTTOM = X[:2], X[2:]
EXPECTED = {
    "all_gather": np.concatenate([X, X]),
    "all_reduce": np.concatenate([TOP + BOTTOM] * 2),
    "reduce_scatter": TOP + BOTTOM,
    "all_to_all": np.stack([np.concatenate([X[row], X[row + 2]]) for row in range(2)]),
    "collective_permute": np.concatenate([BOTTOM, TOP]),
}


def program(op: str) -> str:
    rows, columns = EXPECTED[op].shape
    local = f"tensor<{rows // 2}x{columns}xf32>"
    result = f"tensor<{rows}x{columns}xf32>"
    return f"""sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x4xf32>) -> {result} {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{}}]>] out_shardings=[<@mesh, [{{"x"}}, {{}}]>]
      manual_axes={{"x"}} (%q: tensor<2x4xf32>) {{
    %1 = {COLLECTIVES[op]}
    sdy.return %1 : {local}
  }} : (tensor<4x4xf32>) -> {result}
  return %0 : {result}
}}
"""


@pytest.mark.parametrize("op", COLLECTIVES)
def test_groups_without_a_channel_are_of_devices(op: str) -> None:
    spmd = sw.load(program(op)).plan().partition()
    text = spmd.module("local")
    assert re.search(r"channel_handle<handle = [1-9]\d*, type = 1>", text)
    types = list(spmd.source.graph.results.values())
    done = execute_local(text, spmd.mesh, spmd.in_shardings, spmd.out_shardings, [X], types)
    np.testing.assert_array_equal(done.outputs[0], EXPECTED[op])


def test_the_reference_that_xla_partitions_has_channels_as_well() -> None:
    assert sw.load(program("all_gather")).plan().partition().verify({"x": X}).ok


def test_the_one_replica_stays_one() -> None:
    """A group of replica 0 alone is what it says: nothing is sent."""
    text = program("all_reduce").replace("dense<[[0, 1]]> : tensor<1x2xi64>", "dense<0> : tensor<1x1xi64>")
    spmd = sw.load(text).plan().partition()
    assert "channel_handle" not in spmd.module("local")
