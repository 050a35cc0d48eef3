"""Sums that loops carry round: contributions are added up on each device, and reduced once, behind the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import COLLECTIVES

TURNS = 5
W = np.cos(np.arange(32 * 16, dtype=np.float32)).reshape(32, 16)
BATCHES = np.sin(np.arange(TURNS * 16 * 32, dtype=np.float32)).reshape(TURNS, 16, 32)
ROWS = sw.P(None, "data")
SENDS_NOTHING = {"sdy.all_slice", "sdy.replicated_to_unreduced"}


def loss(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w) ** 2)


def accumulated(w: Any, batches: Any) -> Any:
    total, _ = lax.scan(lambda g, x: (g + jax.grad(loss)(w, x), None), jnp.zeros_like(w), batches)
    return w - 0.1 * total


def from_the_weights(w: Any, batches: Any) -> Any:
    return lax.scan(lambda g, x: (g - jax.grad(loss)(w, x), None), w, batches)[0]


def with_the_loss(w: Any, batches: Any) -> Any:
    def turn(sums: Any, x: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, sums, jax.value_and_grad(loss)(w, x)), None

    return lax.scan(turn, (jnp.float32(0), jnp.zeros_like(w)), batches)[0]


def nested(w: Any, batches: Any) -> Any:
    def outer(g: Any, _: None) -> tuple[Any, None]:
        inner = lax.scan(lambda h, x: (h + jax.grad(loss)(w, x), None), jnp.zeros_like(w), batches)[0]
        return g + inner, None

    return lax.scan(outer, jnp.zeros_like(w), None, length=3)[0]


def read_each_turn(w: Any, batches: Any) -> Any:
    return lax.scan(lambda g, x: (g + jax.grad(loss)(w + g, x), None), jnp.zeros_like(w), batches)[0]


def running(w: Any, batches: Any) -> Any:
    def turn(g: Any, x: Any) -> tuple[Any, Any]:
        g = g + jax.grad(loss)(w, x)
        return g, g

    return lax.scan(turn, jnp.zeros_like(w), batches)[1]


def until_it_is_large(w: Any, batches: Any) -> Any:
    def turn(carried: Any) -> Any:
        n, g = carried
        return n + 1, g + jnp.sum((batches[n] @ w) ** 2)

    return lax.while_loop(lambda c: (c[1] < 9000.0) & (c[0] < TURNS), turn, (0, jnp.float32(0)))


def scattered(w: Any, batches: Any) -> Any:
    """XLA's own partitioner gets scatters of contributions within loops wrong at times."""
    rows = jnp.array([1, 7, 7, 30])
    return lax.scan(lambda g, x: (g.at[rows].add((x @ w)[:4]), None), jnp.zeros_like(w), batches)[0]


def spmd(function: Callable[..., Any]) -> Any:
    return sw.from_jax(function, W, BATCHES).shard(sw.Mesh(data=4), args={1: ROWS}).partition(effort="fast")


def ops_of(block: Block, in_a_loop: bool = False) -> Iterator[tuple[Op, bool]]:
    for op in block.ops:
        yield op, in_a_loop
        for region in op.regions:
            yield from ops_of(region, True)


def sent(program: Any) -> tuple[int, int]:
    """How many collectives send something outside of all loops, and within them."""
    ops = [
        inside for op, inside in ops_of(program.explicit.main.block) if op.name in COLLECTIVES.keys() - SENDS_NOTHING
    ]
    return ops.count(False), ops.count(True)


@pytest.mark.parametrize(
    ("function", "outside", "inside"),
    [
        (accumulated, 1, 0),
        (from_the_weights, 1, 0),
        (with_the_loss, 2, 0),
        (nested, 1, 0),
        (read_each_turn, 0, 1),
        (running, 0, 1),
        (until_it_is_large, 0, 1),
    ],
)
def test_contributions_are_reduced_behind_the_loop(function: Callable[..., Any], outside: int, inside: int) -> None:
    program = spmd(function)
    assert sent(program) == (outside, inside)
    program.verify().require()


def test_scatters_within_loops_are_right() -> None:
    spmd(scattered).verify().require()


def test_a_turn_sends_nothing_for_accumulated_gradients() -> None:
    assert spmd(accumulated).traffic.total.executed_bytes * TURNS == spmd(read_each_turn).traffic.total.executed_bytes


def test_the_explicit_program_is_read_as_it_was_written() -> None:
    program = spmd(nested)
    again = sw.load(program.module("explicit")).plan().partition(effort="fast")
    assert again.module("local") == program.module("local")


def test_loops_within_loops_are_each_tried_once() -> None:
    """Each level tries its body first: were those within it tried anew every time, thirty levels would not end."""

    def level(depth: int) -> Callable[[Any, Any], Any]:
        if depth == 0:
            return jax.grad(loss)
        inner = level(depth - 1)
        return lambda w, x: lax.scan(lambda g, _: (g + inner(w, x), None), jnp.zeros_like(w), None, length=1)[0]

    program = (
        sw.from_jax(level(30), W, BATCHES[0]).shard(sw.Mesh(data=4), args={1: sw.P("data")}).partition(effort="fast")
    )
    assert sent(program) == (1, 0)
