"""Programs that no process can run are refused before one does, at the op."""

from __future__ import annotations

import pytest

import shardwright as sw

FOREIGN = """sdy.mesh @mesh = <["x"=2]>
func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = stablehlo.negate %x : tensor<4x4xf32>
  %1 = "vendor.blur"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
"""


@pytest.mark.parametrize("way", ["verify", "compile"])
def test_an_op_that_xla_has_not_is_named_with_its_line(way: str) -> None:
    spmd = sw.load(FOREIGN).plan().partition()
    assert "vendor.blur" in spmd.module("local")
    with pytest.raises(sw.ShardingError, match=r"XLA has no op vendor\.blur") as refused:
        getattr(spmd, way)()
    assert refused.value.diagnostic.op == "vendor.blur"
    assert refused.value.diagnostic.location == "-:4"
