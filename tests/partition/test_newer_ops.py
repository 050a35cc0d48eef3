"""What StableHLO and chlo have in newer jaxlibs than the one that is locked, in programs of one device."""

from __future__ import annotations

import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.ir.context import is_registered

COLLECTIVE_REDUCE = """
  %1 = "stablehlo.collective_reduce"(%y) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<4x4xf32>) -> tensor<4x4xf32>
"""
MANUAL = f"""
sdy.mesh @m = <["a"=2, "b"=2]>
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{{"a"}}, {{"b"}}]>] out_shardings=[<@m, [{{"a"}}, {{"b"}}]>]
      manual_axes={{"a", "b"}} (%y: tensor<4x4xf32>) {{{COLLECTIVE_REDUCE}
    sdy.return %1 : tensor<4x4xf32>
  }} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}}
"""

needs_collective_reduce = pytest.mark.skipif(
    not is_registered("stablehlo.collective_reduce"), reason="StableHLO of this jaxlib has no collective_reduce"
)


@needs_collective_reduce
def test_a_collective_reduce_inside_a_manual_computation_is_kept_and_counted() -> None:
    spmd = sw.load(MANUAL).plan().partition()
    assert spmd.module("local").count("stablehlo.collective_reduce") >= 1
    assert list(spmd.traffic.kinds) == ["collective_reduce"]
    assert (spmd.traffic.total.static, spmd.traffic.total.static_bytes) == (1, 4 * 4 * 4)


@needs_collective_reduce
def test_a_collective_reduce_between_other_ops_is_refused_at_its_line() -> None:
    text = f"func.func @main(%y: tensor<4x4xf32>) -> tensor<4x4xf32> {{{COLLECTIVE_REDUCE}  return %1 : tensor<4x4xf32>\n}}"
    plan = sw.load(text).shard(sw.Mesh(a=2), args={"y": "a,-"})
    with pytest.raises(ShardingError, match="collective_reduce cannot be partitioned"):
        plan.partition()


@pytest.mark.skipif(
    not is_registered("stablehlo.collective_reduce"), reason="chlo.top_k of this jaxlib is always stable"
)
def test_a_top_k_stays_unstable() -> None:
    text = (
        "func.func @main(%x: tensor<8x16xf32>) -> (tensor<8x3xf32>, tensor<8x3xi32>) {\n"
        '  %0:2 = "chlo.top_k"(%x) <{k = 3 : i64, is_stable = false}> : (tensor<8x16xf32>) -> '
        "(tensor<8x3xf32>, tensor<8x3xi32>)\n  return %0#0, %0#1 : tensor<8x3xf32>, tensor<8x3xi32>\n}\n"
    )
    local = sw.load(text).shard(sw.Mesh(a=2), args={"x": "a,-"}).partition().module("local")
    assert "is_stable = false" in local or "unstable" in local
    assert "tensor<4x16xf32>" in local
