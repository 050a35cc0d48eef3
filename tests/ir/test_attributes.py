"""Attribute text as Python values."""

from __future__ import annotations

import pytest

from shardwright.ir.attributes import bools, decode, i64_array, i64_tensor, integer
from shardwright.ir.context import parse_attribute
from shardwright.ir.types import TensorType, bit_width


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("3 : i64", 3),
        ("-1.5 : f32", -1.5),
        ('"a\\22b"', "a22b"),
        ("array<i64>", ()),
        ("array<i1: true, false>", (True, False)),
        ("dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>", ((0, 1), (2, 3))),
        ("dense<7> : tensor<4xi32>", 7),
        ("[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]", ("DEFAULT", "HIGH")),
        ("#stablehlo<comparison_direction LT>", "LT"),
        ("@mesh", "mesh"),
        ("dense<0xFF800000> : tensor<f32>", "0xFF800000"),
        ('#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>', {"name": "x", "sub_axis_info": (1, 2)}),
        ("#stablehlo.channel_handle<handle = 1, type = 1>", {"handle": 1, "type": 1}),
        (
            "#stablehlo.gather<offset_dims = [1, 2], index_vector_dim = 1>",
            {"offset_dims": (1, 2), "index_vector_dim": 1},
        ),
        ('{a = 1 : i32, b = "x"}', {"a": 1, "b": "x"}),
    ],
)
def test_decode(text: str, value: object) -> None:
    assert decode(text) == value


@pytest.mark.parametrize("values", [[], [1], [3, 0, 2]])
def test_what_is_written_is_what_mlir_prints(values: list[int]) -> None:
    assert str(parse_attribute(i64_array(values))) == i64_array(values)
    assert decode(i64_array(values)) == tuple(values)


def test_other_writers_are_mlir() -> None:
    assert decode(str(parse_attribute(integer(5)))) == 5
    assert decode(str(parse_attribute(bools([True, False])))) == (True, False)
    assert decode(str(parse_attribute(i64_tensor([[0, 1], [2, 3]])))) == ((0, 1), (2, 3))


def test_types() -> None:
    tensor = TensorType.parse("tensor<4x8xcomplex<f32>>")
    assert (tensor.dims, tensor.dtype, tensor.bytes) == ((4, 8), "complex<f32>", 4 * 8 * 8)
    assert str(tensor) == "tensor<4x8xcomplex<f32>>"
    assert TensorType.parse("tensor<f32>").rank == 0
    assert not TensorType.parse("!stablehlo.token").is_tensor
    assert not TensorType.parse("tensor<?x4xf32>").is_tensor
    assert [bit_width(dtype) for dtype in ("i1", "bf16", "f8E4M3FN", "ui64")] == [1, 16, 8, 64]
