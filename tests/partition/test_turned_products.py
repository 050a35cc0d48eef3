"""Transpositions of products: they are the products of the operands the other way round, where that is all they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.ir.graph import Graph
from shardwright.partition.merged import Merging
from shardwright.partition.turned_products import turned_products
from shardwright.program.tuning import trials_of, tried

X = np.sin(np.arange(8 * 4 * 6, dtype=np.float32)).reshape(8, 4, 6)
W = np.cos(np.arange(6 * 8, dtype=np.float32)).reshape(6, 8)
MESH = {"a": 2, "b": 2}


def ops(graph: Graph) -> Counter[str]:
    return Counter(op.name.removeprefix("stablehlo.") for op in graph.walk())


def planned(function: Any, *arguments: Any, args: Any = None) -> sw.Plan:
    return sw.from_jax(function, *arguments).shard(MESH, args or {0: "a"})


def turned(function: Any, *arguments: Any) -> Counter[str]:
    """The ops of a function behind the pass; it computes what it did, on devices."""
    plan = planned(function, *arguments)
    assert plan.partition().verify().ok
    return ops(Merging(turned_products).of(plan.graph))


def product(left: Any, right: Any, contracted: Any, batch: Any = ((), ()), **options: Any) -> Any:
    return lax.dot_general(left, right, (contracted, batch), **options)


def test_the_gradient_of_a_weight_is_one_product() -> None:
    plan = planned(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), W, X, args={1: "a"})
    before, after = ops(plan.graph), ops(Merging(turned_products).of(plan.graph))
    assert before - after == Counter({"transpose": 1})
    spmd = plan.partition()
    assert not ops(spmd.local)["transpose"]
    assert spmd.verify().ok


def test_free_dimensions_of_several_and_batches_change_places_as_well() -> None:
    heads = np.sin(np.arange(2 * 3 * 8 * 5, dtype=np.float32)).reshape(8, 3, 2, 5)

    def function(x: Any, y: Any) -> Any:
        made = product(x, y, ((1,), (1,)), ((0,), (0,)))  # [8, 6, 2, 5]
        return jnp.transpose(made, (0, 2, 3, 1))

    assert turned(function, X[:, :3], heads)["transpose"] == 0


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)])
def test_any_other_transposition_stays(order: tuple[int, ...]) -> None:
    assert turned(lambda x, w: jnp.transpose(x @ w, order), X, W)["transpose"] == 1


def test_that_of_the_free_dimensions_of_the_left_behind_those_of_the_right_does_not() -> None:
    assert turned(lambda x, w: jnp.transpose(x @ w, (2, 0, 1)), X, W)["transpose"] == 0


def test_a_product_that_others_read_stays() -> None:
    def function(x: Any, w: Any) -> Any:
        made = x[:, 0] @ w
        return made.T @ jnp.tanh(made)

    assert turned(function, X, W)["transpose"] == 1


def test_a_product_in_front_of_a_loop_stays_there() -> None:
    def function(x: Any, w: Any) -> Any:
        made = x[:, 0] @ w
        return lax.fori_loop(0, 3, lambda _, y: y @ jnp.transpose(made), jnp.zeros((8, 8)))

    assert turned(function, X, W)["transpose"] == 1


def test_a_product_in_a_loop_is_turned_there() -> None:
    def function(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, y: jnp.tanh(jnp.transpose(y @ w)) @ y, x[:, 0])

    plan = planned(function, X[:6], W[:, :6])
    assert ops(plan.graph)["transpose"] == 1
    assert ops(Merging(turned_products).of(plan.graph))["transpose"] == 0
    assert plan.partition().verify().ok


def test_precisions_that_differ_stay_with_their_operands() -> None:
    def function(precision: Any) -> Any:
        return lambda x, w: jnp.transpose(product(x[:, 0], w, ((1,), (0,)), precision=precision))

    assert turned(function((lax.Precision.HIGHEST, lax.Precision.DEFAULT)), X, W)["transpose"] == 1
    assert turned(function(lax.Precision.HIGHEST), X, W)["transpose"] == 0


def test_a_product_by_an_algorithm_stays() -> None:
    def function(x: Any, w: Any) -> Any:
        return jnp.transpose(product(x[:, 0], w, ((1,), (0,)), precision="F32_F32_F32"))

    assert ops(Merging(turned_products).of(planned(function, X, W).graph))["transpose"] == 1


def test_two_types_keep_their_places() -> None:
    def function(x: Any, w: Any) -> Any:
        made = product(x[:, 0], w.astype(jnp.bfloat16), ((1,), (0,)), preferred_element_type=jnp.float32)
        return jnp.transpose(made)

    assert turned(function, X, W)["transpose"] == 0


def test_the_same_block_comes_of_the_same() -> None:
    graph = planned(jax.grad(lambda w, x: jnp.sum((x @ w) ** 2)), W, X).graph
    products = Merging(turned_products)
    first, again = products.of(graph), products.of(graph)
    assert first.main.block is again.main.block
    assert products.of(first) is first


def test_products_that_were_alike_still_are_of_one_signature() -> None:
    graph = planned(lambda x, y, w: [(x[:, 0] @ w).T, (y[:, 0] @ w).T], X, X + 1, W).graph
    left, right = [op for op in Merging(turned_products).of(graph).walk() if op.name == "stablehlo.dot_general"]
    assert left.signature is right.signature


def test_what_is_tried_is_what_is_partitioned() -> None:
    plan = planned(jax.grad(lambda w, x: jnp.sum(jnp.tanh(x @ w) ** 2)), W, X, args={1: "a"})
    trials = trials_of(plan, ["w"])
    assert trials
    for names, layout in trials:
        trial = tried(plan, names, layout)
        assert not trial.is_afresh
        assert trial.outcome == plan.with_arguments(dict.fromkeys(names, layout)).partition(effort="fast").outcome
