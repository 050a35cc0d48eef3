"""Constants whose elements stand behind the ops, as torch-mlir writes large ones."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

MODULE = """// dense_resource<a comment> : tensor<1xf32>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x3xi1>, tensor<2xcomplex<f32>>, tensor<i64>, tensor<0xf32>) {
  %0 = stablehlo.constant dense_resource<blob> : tensor<4xf32>
  %1 = stablehlo.add %0, %x {note = "dense_resource<blob> : tensor<4xf32>"} : tensor<4xf32>
  %2 = stablehlo.constant dense_resource<flags> : tensor<2x3xi1>
  %3 = stablehlo.constant dense_resource<blob> : tensor<2xcomplex<f32>>
  %4 = stablehlo.constant dense_resource<"one number"> : tensor<i64>
  %5 = stablehlo.constant dense_resource<nothing> : tensor<0xf32>
  return %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<2x3xi1>, tensor<2xcomplex<f32>>, tensor<i64>, tensor<0xf32>
}
{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000000803F000000400000404000008040",
      flags: "0x01000000010001000001",
      "one number": "0x080000000700000000000000",
      nothing: "0x04000000"
    }
  }
#-}
"""


def test_they_are_computed_with() -> None:
    spmd = sw.load(MODULE).shard({"x": 2}, {"x": sw.P("x")}).partition()
    spmd.verify().require()
    results = spmd.compile()(np.ones(4, np.float32))
    expected = (
        np.array([2, 3, 4, 5], np.float32),
        np.array([[True, False, True], [False, False, True]]),
        np.array([1 + 2j, 3 + 4j], np.complex64),
        np.array(7, np.int64),
        np.zeros(0, np.float32),
    )
    assert jax.tree.all(jax.tree.map(np.array_equal, results, expected))


def test_strings_and_comments_stay() -> None:
    assert '"dense_resource<blob> : tensor<4xf32>"' in str(sw.load(MODULE).source.content)


def test_those_that_were_left_out_are_missed() -> None:
    text = MODULE[: MODULE.index("{-#")]
    with pytest.raises(sw.ShardingError) as caught:
        sw.load(text)
    assert caught.value.diagnostic.location == "-:3:27"
    assert "there is none of that name" in caught.value.diagnostic.cause
