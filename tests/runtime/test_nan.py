"""XLA:CPU drops NaN where devices combine maxima or minima: programs that do so are right, and are said to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.ir.types import TensorType
from shardwright.notation.modules import read, text_of
from shardwright.program import Spmd
from shardwright.runtime.execute import Execution, Job, try_jobs
from shardwright.runtime.nan import NOTE, keeping_nan, loses_nan
from shardwright.sharding import TensorSharding

_TYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def _reduced(op: str, dtype: str = "f32") -> Spmd:
    identity = "-1.0e4" if op == "maximum" else "1.0e4"
    text = f"""sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @main(%a: tensor<16x8x{dtype}> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x", "y"}}, {{}}]>}})
    -> (tensor<8x{dtype}>, tensor<8xi1>) {{
  %i = stablehlo.constant dense<{identity}> : tensor<{dtype}>
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.{op} across dimensions = [0]
      : (tensor<16x8x{dtype}>, tensor<{dtype}>) -> tensor<8x{dtype}>
  %1 = stablehlo.compare NE, %0, %0 : (tensor<8x{dtype}>, tensor<8x{dtype}>) -> tensor<8xi1>
  return %0, %1 : tensor<8x{dtype}>, tensor<8xi1>
}}
"""
    return sw.load(text).shard().partition()


def _with_nan(dtype: Any = np.float32) -> Any:
    given = np.arange(128).reshape(16, 8).astype(dtype)
    given[3, 2] = given[15, 3] = given[0, 4] = np.nan
    given[:, 5] = np.nan
    given[0, 0] = np.inf
    return given


@pytest.fixture(scope="module")
def drops_nan() -> bool:
    """Whether the installed XLA:CPU does so."""
    return not np.isnan(_ran(_COLLECTIVES).outputs[1]).any()


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("maximum", "f32"), ("minimum", "f32"), ("maximum", "bf16"), ("minimum", "f16"), ("maximum", "f64")],
)
def test_a_reduction_of_nan_is_verified_and_xla_named(op: str, dtype: str, drops_nan: bool) -> None:
    spmd = _reduced(op, dtype)
    assert loses_nan(spmd.local)
    verification = spmd.verify([_with_nan(_TYPES[dtype])])
    assert verification.ok
    assert (NOTE in verification.notes) == drops_nan
    assert verification.undefined == 4


def test_without_nan_nothing_is_said() -> None:
    verification = _reduced("maximum").verify()
    assert verification.ok
    assert verification.notes == ()


@pytest.mark.parametrize(
    ("name", "attribute", "text"),
    [
        ("stablehlo.all_reduce", "replica_groups", "dense<[[0, 2, 4, 6], [1, 3, 5, 7]]> : tensor<2x4xi64>"),
        ("stablehlo.compare", "comparison_direction", "#stablehlo<comparison_direction EQ>"),
    ],
)
def test_a_wrong_program_of_nan_is_still_caught(name: str, attribute: str, text: str) -> None:
    spmd = _reduced("maximum")
    *_, op = (op for op in spmd.local.walk() if op.name == name)
    attributes = {**dict(op.signature.attributes), attribute: text}
    op.signature = replace(op.signature, attributes=tuple(sorted(attributes.items())))
    assert not spmd.verify([_with_nan()]).ok


_COLLECTIVES = """
module attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2xf32>, tensor<8xf32>) {
    %0 = "stablehlo.reduce_scatter"(%a) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.minimum %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<2xf32>
    %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %m = stablehlo.maximum %p, %q : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    return %0, %1 : tensor<2xf32>, tensor<8xf32>
  }
}
"""


def _ran(text: str) -> Execution:
    mesh = sw.Mesh(x=4)
    sharded = TensorSharding.of(mesh, [["x"]])
    first, second = np.arange(64, dtype=np.float32).reshape(2, 32)
    first[9] = second[25] = np.nan
    types = (TensorType((8,), "f32"), TensorType((32,), "f32"))
    (ran,) = try_jobs([Job(text, (first, second), mesh, (sharded, sharded), (sharded, sharded), types)])
    assert isinstance(ran, Execution), ran
    return ran


def test_every_reduction_keeps_nan() -> None:
    """Each along its own groups."""
    ran = _ran(text_of(keeping_nan(read(load_module(_COLLECTIVES)))))
    assert [np.flatnonzero(np.isnan(output)).tolist() for output in ran.outputs] == [[1], [17, 25]]


def test_integers_and_sums_are_left_alone() -> None:
    assert not loses_nan(read(load_module(_COLLECTIVES.replace("f32", "i32"))))
    assert not loses_nan(read(load_module(_COLLECTIVES.replace("maximum", "add").replace("minimum", "add"))))
