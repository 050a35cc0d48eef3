"""What is not legal, or does not pay, is left as it is, by all passes that change ops; where they stand may change."""

from __future__ import annotations

import pytest

from shardwright.optimize import optimizations
from tests.optimize.explicit import better, function, names

_DOT = "(tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>"
_TAKEN = ['a: tensor<8x16xf32> [{}, {"x"}]', 'b: tensor<16x8xf32> [{"x"}, {}]']
_SUMS = f"""
%0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
%1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
%2 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
%3 = sdy.all_reduce {{"x"}} %2 «[{{}}, {{}}]» : tensor<8x8xf32>
"""
_WHOLE = "tensor<8x8xf32> [{}, {}]"


def _of_sums(op: str) -> str:
    return function(
        _TAKEN, _WHOLE, f"{_SUMS}\n%4 = stablehlo.{op} «[{{}}, {{}}]» : tensor<8x8xf32>\nreturn %4 : tensor<8x8xf32>"
    )


def _scaled(read: str) -> str:
    """A sum of what is scaled, and what reads it."""
    return function(
        [*_TAKEN, "d: tensor<8x8xf32> [{}, {}]"],
        _WHOLE,
        f"""
        %k = stablehlo.constant «[{{}}, {{}}]» dense<0.5> : tensor<8x8xf32>
        %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
        %1 = stablehlo.multiply %k, %0 «[{{}}, {{}}], unreduced={{"x"}}» : tensor<8x8xf32>
        %2 = sdy.all_reduce {{"x"}} %1 «[{{}}, {{}}]» : tensor<8x8xf32>
        %3 = {read}
        return %3 : tensor<8x8xf32>
        """,
    )


_PRODUCT = "stablehlo.dot %2, %d «[{}, {}]» : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>"

_LEFT = {
    "a sum of what is scaled, that a product reads": _scaled(_PRODUCT),
    "a product of sums": _of_sums("multiply %1, %3"),
    "the greater of two sums": _of_sums("maximum %1, %3"),
    "a conversion of a sum": function(
        _TAKEN[:2],
        "tensor<8x8xbf16> [{}, {}]",
        f"""
        %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
        %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
        %2 = stablehlo.convert %1 «[{{}}, {{}}]» : (tensor<8x8xf32>) -> tensor<8x8xbf16>
        return %2 : tensor<8x8xbf16>
        """,
    ),
    "sums of whole numbers": function(
        [one.replace("f32", "i32") for one in _TAKEN],
        _WHOLE.replace("f32", "i32"),
        _SUMS.replace("f32", "i32")
        + "\n%4 = stablehlo.add %1, %3 «[{}, {}]» : tensor<8x8xi32>\nreturn %4 : tensor<8x8xi32>",
    ),
    "a sum that is spread over shards of the same axes": function(
        ['a: tensor<8xf32> [{"x"}]', 'b: tensor<8x16xf32> [{"x"}, {}]'],
        "tensor<1x16xf32> [{}, {}]",
        """
        %z = stablehlo.constant «[]» dense<0.0> : tensor<f32>
        %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] «[], unreduced={"x"}» : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        %1 = sdy.all_reduce {"x"} %0 «[]» : tensor<f32>
        %2 = stablehlo.broadcast_in_dim %1, dims = [] «[{"x"}, {}]» : (tensor<f32>) -> tensor<8x1xf32>
        %3 = stablehlo.dot_general %2, %b, contracting_dims = [0] x [0] «[{}, {}], unreduced={"x"}» : (tensor<8x1xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
        %4 = sdy.all_reduce {"x"} %3 «[{}, {}]» : tensor<1x16xf32>
        return %4 : tensor<1x16xf32>
        """,
    ),
    "sums along different axes": function(
        [*_TAKEN, 'c: tensor<8x16xf32> [{}, {"y"}]', 'd: tensor<16x8xf32> [{"y"}, {}]'],
        _WHOLE,
        f"""
        %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
        %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
        %2 = stablehlo.dot %c, %d «[{{}}, {{}}], unreduced={{"y"}}» : {_DOT}
        %3 = sdy.all_reduce {{"y"}} %2 «[{{}}, {{}}]» : tensor<8x8xf32>
        %4 = stablehlo.add %1, %3 «[{{}}, {{}}]» : tensor<8x8xf32>
        return %4 : tensor<8x8xf32>
        """,
    ),
    "what is behind a barrier": function(
        _TAKEN,
        _WHOLE,
        f"""{_SUMS}
        %4:2 = stablehlo.optimization_barrier {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{}}, {{}}]>, <@mesh, [{{}}, {{}}]>]>}} %1, %3 : tensor<8x8xf32>, tensor<8x8xf32>
        %5 = stablehlo.add %4#0, %4#1 «[{{}}, {{}}]» : tensor<8x8xf32>
        return %5 : tensor<8x8xf32>
        """,
    ),
    "one op behind a reduction of as much": function(
        _TAKEN[:2],
        _WHOLE,
        f"""
        %0 = stablehlo.dot %a, %b «[{{}}, {{}}], unreduced={{"x"}}» : {_DOT}
        %1 = sdy.all_reduce {{"x"}} %0 «[{{}}, {{}}]» : tensor<8x8xf32>
        %2 = stablehlo.negate %1 «[{{}}, {{}}]» : tensor<8x8xf32>
        return %2 : tensor<8x8xf32>
        """,
    ),
    "what comes before more is sent": function(
        ['a: tensor<8xf32> [{"x"}]'],
        "tensor<8x64xf32> [{}, {}]",
        """
        %0 = sdy.all_gather [{"x"}] %a «[{}]» : tensor<8xf32>
        %1 = stablehlo.broadcast_in_dim %0, dims = [0] «[{}, {}]» : (tensor<8xf32>) -> tensor<8x64xf32>
        return %1 : tensor<8x64xf32>
        """,
    ),
    "what is sorted": function(
        ['a: tensor<8xf32> [{"x"}]'],
        "tensor<8xf32> [{}]",
        """
        %0 = sdy.all_gather [{"x"}] %a «[{}]» : tensor<8xf32>
        %1 = "stablehlo.sort"(%0) ({
        ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        %c = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
        }) {dimension = 0 : i64, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : (tensor<8xf32>) -> tensor<8xf32>
        return %1 : tensor<8xf32>
        """,
    ),
}


@pytest.mark.parametrize("name", _LEFT)
def test_it_is_left(name: str) -> None:
    left = better(_LEFT[name], *[one.name for one in optimizations() if not one.is_late], changes=False)
    assert names(left.before) == names(left.after)
