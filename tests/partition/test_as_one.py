"""Ops that compute the same of the same: one of them is left, where their results lie alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.ir.context import load_module
from shardwright.ir.graph import Graph
from shardwright.notation.modules import read
from shardwright.partition.as_one import AsOne
from shardwright.propagation import propagate

X = np.sin(np.arange(64, dtype=np.float32)).reshape(8, 8)


def ops(graph: Graph) -> Counter[str]:
    return Counter(op.name.removeprefix("stablehlo.") for op in graph.walk())


def propagated(body: str, result: str = "") -> Graph:
    """`%x`, split over `a`, and `%i`, a scalar."""
    return propagate(
        read(
            load_module(f"""
            sdy.mesh @mesh = <["a"=2, "b"=2]>
            func.func @main(%x: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"a"}}, {{}}]>}}, %i: tensor<i32>)
                -> (tensor<8x8xf32> {result}, tensor<8x8xf32>) {{
              {body}
              return %left, %right : tensor<8x8xf32>, tensor<8x8xf32>
            }}""")
        )
    )


def test_what_is_alike_all_the_way_is_one() -> None:
    graph = propagated("""
        %s = stablehlo.sine %x : tensor<8x8xf32>
        %t = stablehlo.sine %x : tensor<8x8xf32>
        %left = stablehlo.multiply %s, %x : tensor<8x8xf32>
        %right = stablehlo.multiply %t, %x : tensor<8x8xf32>""")
    one = AsOne().of(graph)
    assert ops(one) == {"sine": 1, "multiply": 1, "func.return": 1}
    assert len(set(one.main.block.terminator.operands)) == 1
    assert ops(graph) == {"sine": 2, "multiply": 2, "func.return": 1}, "the graph given stays as it is"
    assert AsOne().of(one) is one


def test_what_lies_otherwise_stays() -> None:
    graph = propagated(
        """
        %left = stablehlo.sine %x : tensor<8x8xf32>
        %right = stablehlo.sine %x : tensor<8x8xf32>""",
        result='{sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}',
    )
    left, right = graph.main.block.terminator.operands
    assert graph.shardings[left] != graph.shardings[right]
    assert AsOne().of(graph) is graph


@pytest.mark.parametrize(
    "op",
    [
        "stablehlo.optimization_barrier %x : tensor<8x8xf32>",
        "stablehlo.custom_call @foreign(%x) {has_side_effect = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>",
    ],
)
def test_what_is_more_than_its_result_stays(op: str) -> None:
    graph = propagated(f"%left = {op}\n%right = {op}")
    assert AsOne().of(graph) is graph


def test_random_numbers_stay() -> None:
    def drawn(x: Any) -> Any:
        return [lax.rng_uniform(jnp.float32(0), jnp.float32(1), (8, 8)) * x for _ in range(2)]

    graph = sw.from_jax(drawn, X).shard({"a": 2}, {"x": "a,-"}).graph
    assert ops(graph)["rng"] == 2
    assert ops(AsOne().of(graph)) == ops(graph)


def test_blocks_of_loops_each_have_their_own() -> None:
    def function(x: Any) -> Any:
        def turn(_: Any, h: Any) -> Any:
            return jnp.sin(h) * jnp.tanh(x) + jnp.sin(h) * jnp.tanh(x)

        return lax.fori_loop(0, 3, turn, jnp.tanh(x)) + jnp.tanh(x)

    plan = sw.from_jax(function, X).shard({"a": 2}, {"x": "a,-"})
    assert ops(plan.graph)["tanh"] == 4
    one = ops(AsOne().of(plan.graph))
    assert (one["tanh"], one["sine"]) == (2, 1)
    assert plan.partition().verify().ok


def test_what_is_recomputed_is_recomputed_still() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jax.checkpoint(lambda x: jnp.exp(jnp.sin(x)))(x) ** 2)

    plan = sw.from_jax(jax.grad(loss), X).shard({"a": 2}, {"x": "a,-"})
    assert ops(plan.graph)["sine"] == ops(AsOne().of(plan.graph))["sine"] == 2
    assert plan.partition().verify().ok


def test_the_same_ops_come_in_the_same_block() -> None:
    graph = propagated("""
        %left = stablehlo.sine %x : tensor<8x8xf32>
        %right = stablehlo.sine %x : tensor<8x8xf32>""")
    as_one = AsOne()
    first, again = as_one.of(graph), as_one.of(graph)
    assert first.main.block is again.main.block
    assert first.main.block.ops[0] is graph.main.block.ops[0]


def test_a_program_is_written_with_one_of_each() -> None:
    """The broadcast of a softmax's sums, which its gradient broadcasts again."""

    def function(x: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) ** 3))(x)

    plan = sw.from_jax(function, X).shard({"a": 2}, {"x": "a,-"})
    spmd = plan.partition()
    texts = [line.split(" = ", 1)[1] for line in spmd.module("local").splitlines() if " = stablehlo." in line]
    assert max(Counter(texts).values()) == 1
    assert spmd.verify().ok
