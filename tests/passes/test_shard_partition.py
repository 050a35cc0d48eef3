"""`-shard-partition`: what upstream's dialects have is written as they have it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module, module_text
from shardwright.notation.module_notations import module_notation
from shardwright.passes.pipeline import run_step, steps_of
from tests.partition.processes.running import assert_as_defined, make_run, run_all

_TEXT = """shard.grid @g(shape = 2x4)
func.func @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %s = shard.sharding @g split_axes = [[0], [1]] : !shard.sharding
  %w = shard.sharding @g split_axes = [[]] : !shard.sharding
  %a1 = shard.shard %a to %w : tensor<8x8xf32>
  %a2 = shard.shard %a1 to %s annotate_for_users : tensor<8x8xf32>
  %c = CONSTANT
  %0 = stablehlo.add %a2, %c : tensor<8x8xf32>
  %r1 = shard.shard %0 to %s : tensor<8x8xf32>
  return %r1 : tensor<8x8xf32>
}
"""


def partitioned(constant: str) -> list[str]:
    shard = module_notation("shard")
    module = load_module(shard.generic(_TEXT.replace("CONSTANT", constant), "-"))
    for step in steps_of("shard-partition"):
        run_step(module, step)
    return [line.strip() for line in shard.spell(module_text(module)).splitlines() if line.strip().startswith("%")]


def test_a_part_is_an_all_slice_along_each_dimension() -> None:
    lines = partitioned("stablehlo.constant dense<2.0> : tensor<8x8xf32>")
    assert (
        lines[0]
        == "%0 = shard.all_slice %arg0 on @g grid_axes = [0] slice_axis = 0 : tensor<8x8xf32> -> tensor<4x8xf32>"
    )
    assert (
        lines[1] == "%1 = shard.all_slice %0 on @g grid_axes = [1] slice_axis = 1 : tensor<4x8xf32> -> tensor<4x2xf32>"
    )
    assert lines[2] == "%cst = stablehlo.constant dense<2.000000e+00> : tensor<4x2xf32>"
    assert not any("process_" in line or "dynamic_slice" in line for line in lines)


def test_constants_of_arith_stay_of_arith_and_are_parts() -> None:
    lines = partitioned("arith.constant dense<2.0> : tensor<8x8xf32>")
    assert "%cst = arith.constant dense<2.000000e+00> : tensor<4x2xf32>" in lines
    assert not any("stablehlo.constant" in line for line in lines)


_TYPE = "tensor<8x8xf32>"
_ON_TWO = f"""
  %s = shard.sharding @two split_axes = [[], [0]] : !shard.sharding
  %p = shard.sharding @two split_axes = [[0], []] : !shard.sharding
  %w = shard.sharding @two split_axes = [[]] : !shard.sharding
  %a1 = shard.shard %a to %s : {_TYPE}
  %a2 = shard.shard %a1 to %s annotate_for_users : {_TYPE}
  %b1 = shard.shard %b to %p : {_TYPE}
  %b2 = shard.shard %b1 to %p annotate_for_users : {_TYPE}
  %0 = stablehlo.dot %a2, %b2 : ({_TYPE}, {_TYPE}) -> {_TYPE}
  %r1 = shard.shard %0 to %w : {_TYPE}"""
_ON_FOUR = f"""
  %t = shard.sharding @four split_axes = [[0], [1]] : !shard.sharding
  %u = shard.sharding @four split_axes = [[0]] : !shard.sharding
  %c1 = shard.shard %c to %t : {_TYPE}
  %c2 = shard.shard %c1 to %u annotate_for_users : {_TYPE}
  %1 = stablehlo.add %c2, %c2 : {_TYPE}
  %r2 = shard.shard %1 to %u : {_TYPE}"""


def _partitioned_text(arguments: str, body: str, results: str) -> str:
    """A program on grids of two and of four processes, or on one of them."""
    shard = module_notation("shard")
    types = ", ".join([_TYPE] * len(results.split()))
    head = ", ".join(f"%{name}: {_TYPE}" for name in arguments)
    text = f"func.func @main({head}) -> ({types}) {{{body}\n  return {results} : {types}\n}}\n"
    for grid, shape in (("four", "2x2"), ("two", "2")):
        if f"@{grid} " in text:
            text = f"shard.grid @{grid}(shape = {shape})\n{text}"
    module = load_module(shard.generic(text, "-"))
    for step in steps_of("shard-partition"):
        run_step(module, step)
    assert module.operation.verify()
    return module_text(module)


def _ops(text: str) -> list[str]:
    """The ops of a program without the names of values."""
    return [re.sub(r"%\w+", "%", line.strip()) for line in text.splitlines() if " = " in line]


def test_parts_on_grids_of_different_size_are_what_they_are_alone_and_compute_the_program() -> None:
    two = _partitioned_text("ab", _ON_TWO, "%r1")
    four = _partitioned_text("c", _ON_FOUR, "%r2")
    both = _ops(_partitioned_text("abc", _ON_TWO + _ON_FOUR, "%r1, %r2"))
    assert sorted(both) == sorted([*_ops(two), *_ops(four)])
    assert [op for op in both if "@two" in op] == [op for op in _ops(two) if "@two" in op] != []
    assert [op for op in both if "@four" in op] == [op for op in _ops(four) if "@four" in op] != []

    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 5, (8, 8)).astype(np.float32) for _ in range(3))
    cut = [slice(0, 4), slice(4, 8)]
    split = [
        {device: a[:, cut[device]] for device in range(2)},
        {device: b[cut[device]] for device in range(2)},
        {device: c[cut[device // 2], cut[device % 2]] for device in range(4)},
    ]
    product, rows = {0: a @ b, 1: a @ b}, {device: 2 * c[cut[device // 2]] for device in range(4)}
    runs = [
        make_run(two, (2,), split[:2], [product], ["dot"]),
        make_run(four, (2, 2), split[2:], [rows], ["add"]),
    ]
    for run, outcome in zip(runs, run_all(runs), strict=True):
        assert assert_as_defined(run, outcome) == 1


def test_no_process_has_a_program_with_an_op_between_grids_of_different_size() -> None:
    between = _ON_TWO + _ON_FOUR + f"\n  %2 = stablehlo.add %r1, %r2 : {_TYPE}"
    with pytest.raises(ShardingError, match="function @main uses meshes of different size") as caught:
        _partitioned_text("abc", between, "%2")
    found = caught.value.diagnostic
    assert found.op == "stablehlo.add"
    assert (found.location or "").startswith("-:19")
    assert found.remedy
