"""`-shard-partition`: what upstream's dialects have is written as they have it."""

from __future__ import annotations

import shardwright.passes.all  # noqa: F401  (registers the passes)
from shardwright.ir.context import load_module, module_text
from shardwright.notation.module_notations import module_notation
from shardwright.passes.pipeline import run_step, steps_of

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
