"""What is restored of a stated sharding that does not divide."""

from __future__ import annotations

import shardwright as sw


def test_an_axis_that_a_result_is_split_along_elsewhere_is_not_restored() -> None:
    """The value lies along `x` in its first dimension, open in the result; the result has `x` in its second."""
    spmd = (
        sw.load(
            """
    sdy.mesh @mesh = <["x"=7]>
    func.func @main(%a: tensor<2x7xf32>)
        -> (tensor<2x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"x"}p2]>},
            tensor<2x7xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}) {
      %0 = stablehlo.negate %a : tensor<2x7xf32>
      %1 = stablehlo.sine %0 : tensor<2x7xf32>
      return %1, %0 : tensor<2x7xf32>, tensor<2x7xf32>
    }"""
        )
        .plan()
        .partition()
    )
    assert list(map(str, spmd.out_shardings)) == ["[{}, {x}]", "[{x}, {}]"]
    assert spmd.verify().ok
