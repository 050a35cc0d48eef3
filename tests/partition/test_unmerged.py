"""Sums over dimensions that a reshape has put together: they are sums over those dimensions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.ir.graph import Graph
from shardwright.partition.fewer_ops import with_fewer_ops
from shardwright.partition.merged import Merging
from shardwright.partition.unmerged import dims_merged, unmerged

X = np.sin(np.arange(8 * 4 * 6, dtype=np.float32)).reshape(8, 4, 6)
W = np.cos(np.arange(8 * 4 * 6, dtype=np.float32)).reshape(8, 4, 6)
MESH = {"a": 2, "b": 2}


def ops(graph: Graph) -> Counter[str]:
    return Counter(op.name.removeprefix("stablehlo.") for op in graph.walk())


def planned(function: Any, *arguments: Any) -> sw.Plan:
    return sw.from_jax(function, *arguments).shard(MESH, dict.fromkeys(range(len(arguments)), sw.P("a", "b")))


def reshapes(function: Any, *arguments: Any) -> int:
    """How many reshapes are left of a function; it computes what it did, on devices."""
    plan = planned(function, *arguments)
    for effort in ("fast", "default"):
        assert plan.partition(effort=effort).verify().ok
    return ops(with_fewer_ops(plan.graph))["reshape"]


@pytest.mark.parametrize("effort", ["fast", "default"])
def test_of_the_norm_of_gradients_only_numbers_are_sent(effort: str) -> None:
    plan = planned(lambda x, y: jnp.sqrt(jnp.vdot(x, x) + jnp.vdot(y, y)), X, W)
    spmd = plan.partition(effort=effort)
    assert spmd.verify().ok
    assert {use.kind for use in spmd.assessment.collectives} == {"all_reduce"}
    assert spmd.traffic.total.executed_bytes <= 16


def test_products_of_two_and_batches_of_them_are_over_dimensions_as_they_were() -> None:
    def function(x: Any, y: Any) -> Any:
        rows = lax.dot_general(x.reshape(8, 24), y.reshape(8, 24), (((1,), (1,)), ((0,), (0,))))
        return rows, lax.dot_general(x.reshape(8, 24), y, (((0,), (0,)), ((), ()))), jnp.vdot(x, y)

    assert reshapes(function, X, W) == 1  # that of 24 rows of a result


def test_reductions_are_over_dimensions_as_they_were() -> None:
    assert reshapes(lambda x: (x.reshape(-1).sum(), x.reshape(8, 24).max(1), x.reshape(32, 6).min(0)), X) == 0


def test_dimensions_that_stay_or_are_taken_apart_are_put_together_as_before() -> None:
    assert reshapes(lambda x: x.reshape(32, 6).sum(1), X) == 1
    assert reshapes(lambda x: x.reshape(4, 8, 6).sum(0), X) == 1


def test_products_of_dimensions_put_together_otherwise_stay() -> None:
    turned = np.ascontiguousarray(W.transpose(1, 0, 2))
    assert reshapes(lambda x, y: jnp.vdot(x, y.reshape(8, 4, 6)), X, turned) == 1
    assert reshapes(lambda x, y: x.reshape(-1) @ y.reshape(-1), X, turned) == 2


def test_sums_in_a_loop_are_taken_there() -> None:
    def function(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, y: y / jnp.sqrt(jnp.vdot(y, y)), x)

    assert reshapes(function, X) == 0


def test_the_same_block_comes_of_the_same() -> None:
    graph = planned(lambda x: jnp.vdot(x, x), X).graph
    sums = Merging(unmerged)
    first, again = sums.of(graph), sums.of(graph)
    assert first.main.block is again.main.block
    assert sums.of(first) is first


def test_nothing_and_scalars_are_put_together_of_nothing() -> None:
    assert dims_merged((0, 4), (0,)) is None
    assert dims_merged((), (1,)) is None
    assert dims_merged((1, 1), ()) is None
    assert dims_merged((), ()) == ()
