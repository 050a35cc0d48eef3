"""Collectives of several tensors, where a per-device program becomes a part of what JAX compiles."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.ir.context import context, load_module
from shardwright.runtime.apart import take_apart
from tests.frontends.devices import eight_devices

eight_devices()

GROUPS = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>, use_global_device_ids"
SEVERAL = f"""
func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<4xf32>) {{
  %0:2 = "stablehlo.all_reduce"(%a, %b) <{{channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, {GROUPS}}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<4xf32>, tensor<8xf32>) -> (tensor<4xf32>, tensor<8xf32>)
  %1 = "stablehlo.all_reduce"(%a) <{{channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, {GROUPS}}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }}) : (tensor<4xf32>) -> tensor<4xf32>
  return %0#0, %0#1, %1 : tensor<4xf32>, tensor<8xf32>, tensor<4xf32>
}}"""


def test_each_tensor_gets_a_collective_on_a_channel_of_its_own() -> None:
    module = load_module(SEVERAL)
    with context():
        take_apart(module)
    assert module.operation.verify()
    text = str(module)
    assert text.count("stablehlo.all_reduce") == 3
    assert text.count("stablehlo.maximum") == 2
    channels = [int(number) for number in re.findall(r"handle = (\d+)", text)]
    assert len(set(channels)) == 3
    assert 4 in channels
    returned = re.search(r"return (%\d+), (%\d+), (%\d+)", text)
    assert returned
    assert len(set(returned.groups())) == 3


@pytest.mark.parametrize("optimize", ["off", "exact", "all"])
def test_a_function_whose_gathers_start_as_one_runs_by_itself_and_within_another(optimize: Any) -> None:
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("x"))

    def function(x: Any, v: Any, w: Any) -> Any:
        return jnp.tanh(x @ v) @ w

    shapes = ((16, 16), (16, 16), (16, 32))
    keys = jax.random.split(jax.random.key(0), len(shapes))
    given = [jax.device_put(jax.random.normal(key, shape), rows) for key, shape in zip(keys, shapes, strict=True)]
    jitted = jax.jit(function, in_shardings=(rows,) * 3, out_shardings=rows)
    spmd = sw.from_jax(jitted, *given).shard(mesh).partition(optimize=optimize)
    assert ('"stablehlo.all_gather"(%0, %1)' in spmd.module("local")) == (optimize != "off")
    compiled = spmd.compile()
    expected = np.asarray(function(*given))
    np.testing.assert_allclose(np.asarray(compiled(*given)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        np.asarray(jax.jit(lambda *a: compiled(*a) + 1)(*given)), expected + 1, rtol=1e-5, atol=1e-5
    )
