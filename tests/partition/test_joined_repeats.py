"""Concatenations of which several operands are one value: a device may have it in two places of its part."""

from __future__ import annotations

import numpy as np

import shardwright as sw
from shardwright.runtime.execute import Job, run_jobs

_ROWS = {"a": 16, "b": 8}
_JOINED = ("bb", "abb", "bba", "bab", "bbb", "bbbb", "abbb", "aabb")


def _module(joined: str, devices: int) -> str:
    """The rows of `a` and `b`, split over devices, as often as they are named; all of it split before and after."""
    split = '#sdy.sharding<@mesh, [{"x"}, {}]>'
    size = sum(map(_ROWS.__getitem__, joined))
    operands = ", ".join(f"%{name}" for name in joined)
    types = ", ".join(f"tensor<{_ROWS[name]}x3xf32>" for name in joined)
    return f"""
    sdy.mesh @mesh = <["x"={devices}]>
    func.func @main(%a: tensor<16x3xf32> {{sdy.sharding = {split}}}, %b: tensor<8x3xf32> {{sdy.sharding = {split}}})
        -> (tensor<{size}x3xf32> {{sdy.sharding = {split}}}) {{
      %0 = stablehlo.concatenate {operands}, dim = 0 : ({types}) -> tensor<{size}x3xf32>
      return %0 : tensor<{size}x3xf32>
    }}"""


def test_a_value_that_is_joined_more_than_once_is_in_all_its_places() -> None:
    a, b = (np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) for rows in (16, 8))
    arrays = {"a": a, "b": -1 - b}
    expected, jobs = {}, []
    for joined in _JOINED:
        for devices in (2, 4, 8):
            spmd = sw.load(_module(joined, devices)).plan().partition()
            expected[f"{joined} on {devices}"] = np.concatenate([arrays[name] for name in joined])
            layouts, types = (spmd.in_shardings, spmd.out_shardings), tuple(spmd.plan.program.results.values())
            jobs.append(Job(spmd.module("local"), (a, -1 - b), spmd.mesh, *layouts, types, draft=True))
    for (name, whole), done in zip(expected.items(), run_jobs(jobs), strict=True):
        np.testing.assert_array_equal(done.outputs[0], whole, name)
