"""Lookups and updates at one place of a shard that was cut just before, of which XLA makes one slice of two."""

from __future__ import annotations

import numpy as np
import pytest

import shardwright as sw

SCATTER = """"stablehlo.scatter"(%c, %at, %u) ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    {combined}
    stablehlo.return %r : tensor<f32>
  }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}} : (tensor<8xf32>, tensor<1xi32>, tensor<f32>)
  -> tensor<8xf32>"""

OPS = {
    "scatter by product": SCATTER.format(combined="%r = stablehlo.multiply %p, %q : tensor<f32>"),
    "scatter of the new": SCATTER.format(combined="%r = stablehlo.add %q, %q : tensor<f32>"),
    "gather": """"stablehlo.gather"(%c, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 1>}> : (tensor<8xf32>, tensor<1xi32>)
      -> tensor<f32>""",
    "slice of one": "stablehlo.dynamic_slice %c, %i, sizes = [1] : (tensor<8xf32>, tensor<i32>) -> tensor<1xf32>",
    "slice of three": "stablehlo.dynamic_slice %c, %i, sizes = [3] : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>",
    "slice of six": "stablehlo.dynamic_slice %c, %i, sizes = [6] : (tensor<8xf32>, tensor<i32>) -> tensor<6xf32>",
    "update of one": "stablehlo.dynamic_update_slice %c, %one, %i : (tensor<8xf32>, tensor<1xf32>, tensor<i32>)"
    " -> tensor<8xf32>",
    "update of three": "stablehlo.dynamic_update_slice %c, %three, %i : (tensor<8xf32>, tensor<3xf32>, tensor<i32>)"
    " -> tensor<8xf32>",
    "update of six": "stablehlo.dynamic_update_slice %c, %six, %i : (tensor<8xf32>, tensor<6xf32>, tensor<i32>)"
    " -> tensor<8xf32>",
}


def module(op: str) -> str:
    """The op on a tensor that is whole as an argument and split before the op, its place given as number and vector."""
    result = op.rpartition("-> ")[2]
    split = ' {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}' if result == "tensor<8xf32>" else ""
    return f"""
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}]>}}, %at: tensor<1xi32>, %u: tensor<f32>)
        -> ({result}{split}) {{
      %c = sdy.sharding_constraint %a <@mesh, [{{"x"}}]> : tensor<8xf32>
      %i = stablehlo.reshape %at : (tensor<1xi32>) -> tensor<i32>
      %one = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f32>) -> tensor<1xf32>
      %three = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %six = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<f32>) -> tensor<6xf32>
      %0 = {op}
      return %0 : {result}
    }}"""


@pytest.mark.parametrize("name", OPS)
def test_a_place_outside_of_the_shard_changes_nothing_there(name: str) -> None:
    spmd = sw.load(module(OPS[name])).plan().partition()
    for at in (-1, 0, 3, 6, 8):
        inputs = [np.arange(1, 9, dtype=np.float32), np.array([at], np.int32), np.float32(0.5)]
        assert spmd.verify(inputs=inputs).ok, at
