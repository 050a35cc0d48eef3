"""Attributes that stand for far more than they say are refused; constants of any shape are not."""

from __future__ import annotations

import pytest

from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.ir.splats import refuse_splats
from tests.ir.contained import read_contained

_WINDOW = """func.func @main(%a: tensor<8xf32>, %z: tensor<f32>) -> tensor<8xf32> {
  %r = "stablehlo.reduce_window"(%a, %z) <{window_dimensions = array<i64: 1>,
      padding = dense<1> : tensor<400000000x2xi64>}> ({
    ^bb0(%l: tensor<f32>, %m: tensor<f32>):
      %s = stablehlo.add %l, %m : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  return %r : tensor<8xf32>
}
"""
_CONVOLUTION = """func.func @main(%a: tensor<4x8x3x3xf32>, %b: tensor<3x4x3x3xf32>) -> tensor<1x2x4x4xf32> {
  %r = "stablehlo.convolution"(%a, %b) {
    dimension_numbers = #stablehlo.conv<[0, b, f, 1]x[i, o, 99999999999, 1]->[0, 1, b, f]>,
    feature_group_count = 1 : i64, batch_group_count = 2 : i64
  } : (tensor<4x8x3x3xf32>, tensor<3x4x3x3xf32>) -> tensor<1x2x4x4xf32>
  return %r : tensor<1x2x4x4xf32>
}
"""
_ALIASED = "#p = dense<1> : tensor<400000000x2xi64>\n" + _WINDOW.replace("dense<1> : tensor<400000000x2xi64>", "#p")


def test_numbers_repeated_without_end_are_refused_at_their_line() -> None:
    window, aliased, convolution = read_contained([_WINDOW, _ALIASED, _CONVOLUTION])
    assert window.startswith("f.mlir:3: error: an attribute repeats one number 800000000 times")
    assert aliased.startswith("f.mlir:1: error: an attribute repeats one number 800000000 times")
    assert convolution.startswith("f.mlir:3: error: the dimension numbers of a convolution name dimension 99999999999")


@pytest.mark.parametrize("result", ["[0, 1, b, f, 99999999999]", "// ]\n [0, // ]\n 1, b, 99999999999]"])
def test_dimension_numbers_are_read_to_their_end(result: str) -> None:
    with pytest.raises(ShardingError, match="of a convolution name dimension 99999999999"):
        refuse_splats(
            f"stablehlo.convolution(%a, %b) dim_numbers = [0, b, // ->\n f, 1]x[i, o, 0, 1]->{result}, window = {{}}"
        )


def test_windows_may_go_in_long_steps() -> None:
    module = load_module("""
        func.func @main(%a: tensor<1x1x8xf32>, %b: tensor<1x4x2xf32>) -> tensor<1x1x2xf32> {
          %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
              window = {stride = [4294967296], pad = [[1, 0]]}
              {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
              : (tensor<1x1x8xf32>, tensor<1x4x2xf32>) -> tensor<1x1x2xf32>
          return %0 : tensor<1x1x2xf32>
        }""")
    assert module.operation.verify()


@pytest.mark.parametrize("splat", ["dense<0>", 'dense<"0x00000000">', "dense< 0 >"])
@pytest.mark.parametrize("op", ["stablehlo.constant @", '"stablehlo.constant"() <{value = @}> : () -> #'])
def test_constants_of_any_shape_are_read(op: str, splat: str) -> None:
    type = "tensor<100000x100000x1000xi32>"
    text = op.replace("@", f"{splat} : {type}").replace("#", type)
    load_module(f"func.func @main() -> {type} {{\n  %c = {text}\n  return %c : {type}\n}}")


@pytest.mark.parametrize("splat", ["dense<true> : tensor<2097152xi1>", "dense<-1>: vector<4x 1048576 xui8>"])
def test_other_attributes_are_not(splat: str) -> None:
    with pytest.raises(ShardingError, match="an attribute repeats one number"):
        load_module(f'func.func @main() {{\n  "my.op"() {{a = {splat}}} : () -> ()\n  return\n}}')
