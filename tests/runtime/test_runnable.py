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


@pytest.mark.parametrize("way", ["verify", "compile"])
@pytest.mark.parametrize("version", ["", "{api_version = 4 : i32} "])
def test_a_function_that_xla_has_not_is_told_at_its_call(way: str, version: str) -> None:
    call = f"stablehlo.custom_call @vendor.blur(%0) {version}"
    spmd = sw.load(FOREIGN.replace('"x"=2', '"x"=1').replace('"vendor.blur"(%0) ', call)).plan().partition()
    with pytest.raises(sw.ShardingError, match=r"XLA has no function vendor\.blur to call") as refused:
        getattr(spmd, way)()
    assert refused.value.diagnostic.op == "stablehlo.custom_call @vendor.blur"
    assert refused.value.diagnostic.location == "-:4"
    assert "egistered" in refused.value.diagnostic.cause
    assert refused.value.diagnostic.remedy


def test_a_program_of_one_device_tells_it_there_too() -> None:
    text = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.custom_call @vendor.blur(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 0 : tensor<2x3xf32> -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
"""
    with pytest.raises(sw.ShardingError, match=r"XLA has no function vendor\.blur to call") as refused:
        sw.load(text).per_device().run()
    assert refused.value.diagnostic.location == "-:3"
