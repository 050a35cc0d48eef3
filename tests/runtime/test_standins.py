"""What stands in for collectives, where one device is measured in place of many: shapes stay, and it runs on one."""

from __future__ import annotations

import numpy as np
import pytest

from shardwright.ir.context import load_module
from shardwright.runtime.execute import execute_unsharded
from tests.oracles.standins import alone

GROUPS = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"
EVERY = f"""
module attributes {{mhlo.num_partitions = 4 : i32}} {{
  func.func public @main(%x: tensor<4x8xf32> {{mhlo.sharding = "{{replicated}}"}})
      -> (tensor<4x8xf32>, tensor<16x8xf32>, tensor<1x8xf32>, tensor<16x2xf32>, tensor<4x8xf32>, tensor<ui32>) {{
    %0 = "stablehlo.all_reduce"(%x) <{{{GROUPS}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = "stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, {GROUPS}}}> : (tensor<4x8xf32>) -> tensor<16x8xf32>
    %2 = "stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, {GROUPS}}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %3 = "stablehlo.all_to_all"(%x) <{{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 4 : i64,
      {GROUPS}}}> : (tensor<4x8xf32>) -> tensor<16x2xf32>
    %4 = "stablehlo.collective_permute"(%x) <{{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}}>
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = stablehlo.partition_id : tensor<ui32>
    return %0, %1, %2, %3, %4, %5
      : tensor<4x8xf32>, tensor<16x8xf32>, tensor<1x8xf32>, tensor<16x2xf32>, tensor<4x8xf32>, tensor<ui32>
  }}
}}
"""


def test_a_program_of_all_collectives_runs_on_one_device() -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    reduced, gathered, scattered, exchanged, permuted, number = execute_unsharded(alone(load_module(EVERY)), [x])
    assert np.array_equal(reduced, x)
    assert np.array_equal(gathered, np.concatenate([x] * 4))
    assert np.array_equal(scattered, x[:1])
    assert np.array_equal(exchanged, np.concatenate(np.split(x, 4, axis=1)))
    assert np.array_equal(permuted, np.roll(x, 2, axis=1))
    assert number == 0


def test_what_has_no_standin_is_refused() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        is_host_transfer = false}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
      return %x : tensor<4xf32>
    }"""
    with pytest.raises(ValueError, match=r"nothing stands in for stablehlo\.send"):
        alone(load_module(text))
