"""What is restored of a stated sharding that does not divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

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


X, W = np.ones((7, 64), np.float32), np.ones((64, 32), np.float32)

NOT_SEEN: dict[str, Callable[..., Any]] = {
    "the rows of a product": lambda x, w: jnp.tanh(x @ w),
    "a sum of other dimensions": lambda x, w: (x + 1).sum(1),
    "another sum, masked by itself": lambda x, w: jnp.exp(x).sum(0) @ w,
}
SEEN: dict[str, Callable[..., Any]] = {
    "a sum over rows": lambda x, w: x.sum(0) @ w,
    "a sum of what keeps zeros": lambda x, w: (-x).T.sum(1) @ w,
    "rows contracted": lambda x, w: (x.T @ x) @ w,
    "a sum beside the rows": lambda x, w: (jnp.tanh(x @ w), x.sum(0)),
}


@pytest.mark.parametrize(
    ("name", "is_open"), [*dict.fromkeys(NOT_SEEN, True).items(), *dict.fromkeys(SEEN, False).items()]
)
def test_an_argument_is_masked_where_something_reads_its_padding(name: str, is_open: bool) -> None:
    function = (NOT_SEEN | SEEN)[name]
    spmd = sw.from_jax(function, X, W).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    explicit = spmd.module("explicit")
    assert ("shardwright.open" in explicit) == is_open
    assert spmd.verify().ok
    read = sw.load(explicit).plan().partition()
    assert ("shardwright.open" in read.module("explicit")) == is_open
    assert read.module("local").count("stablehlo.select") == spmd.module("local").count("stablehlo.select")


def test_an_open_argument_is_used_as_it_is() -> None:
    spmd = sw.from_jax(NOT_SEEN["the rows of a product"], X, W).shard(sw.Mesh(x=4), args={0: "x,-"}).partition()
    local = spmd.module("local")
    assert "stablehlo.select" not in local
    assert "stablehlo.partition_id" not in local
