"""Programs as the search takes them: propagated, padded, and ready to be decided."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import shardwright as sw
from shardwright.cost.hardware import TPU_V5P
from shardwright.ir.graph import Graph
from shardwright.partition.cut_pads import with_cut_pads
from shardwright.partition.decide import decide
from shardwright.partition.late_rows import with_late_rows
from shardwright.partition.padding import pad_uneven, with_stated_boundary
from shardwright.partition.rolls import with_rolls
from shardwright.partition.search.best import BUDGETS
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import Solution, solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.integer import Limits, solve
from shardwright.partition.search.reduced import Reduced
from shardwright.partition.search.total import times_run
from shardwright.program import Plan

__all__ = [
    "SCALED",
    "Begun",
    "begun",
    "branching_program",
    "ready",
    "region_program",
    "repeated_program",
    "small_program",
]

SCALED = replace(TPU_V5P, start_seconds=TPU_V5P.start_seconds / 1000)
"""Programs of tests are a thousand times smaller than those that they stand for."""

LINE, GRID = sw.Mesh(x=4), sw.Mesh(x=2, y=2)


def ready(plan: Plan) -> Graph:
    """The program of a plan as `materialize` decides it."""
    graph = pad_uneven(with_cut_pads(with_rolls(with_stated_boundary(plan.graph, plan.annotated)))).graph
    return with_late_rows(graph, decide(graph))


class Begun(NamedTuple):
    """A small program of which one choice is known, each node having its first way, and what the best one takes."""

    reduced: Reduced
    distances: Distances
    found: Solution
    best: Solution


def begun(seed: int) -> Begun:
    """A random one, in a session on hardware that is `SCALED`."""
    graph = ready(small_program(seed))
    choices, distances = choice_graph(graph, decide(graph), times_run(graph)), Distances(SCALED)
    found = solution_of(choices, (0,) * len(choices.nodes), distances, 0.0)
    all_of_it = Limits(entries=10_000_000, gap=1e-6, work=1_000_000_000)
    best, _ = solve(choices, distances, (), found.seconds, all_of_it)
    assert best is not None
    return Begun(Reduced(choices, found.ways, found.seconds, BUDGETS["default"]), distances, found, best)


def _function(rng: random.Random) -> Callable[..., Any]:
    """Products, sums, transposes and the like of 8×8 matrices."""
    kinds = rng.choices(
        ("product", "transpose", "add", "tanh", "centre", "reverse"), (8, 3, 4, 2, 2, 1), k=rng.randint(2, 6)
    )
    picks = [(rng.random(), rng.random()) for _ in kinds]
    both = rng.random() < 0.3

    def f(*inputs: Any) -> Any:
        values = list(inputs)
        for kind, (late, any_) in zip(kinds, picks, strict=True):
            last = values[-3:]
            one, other = last[int(late * len(last))], values[int(any_ * len(values))]
            match kind:
                case "product":
                    values.append(one @ other)
                case "transpose":
                    values.append(one.T)
                case "add":
                    values.append(one + other)
                case "tanh":
                    values.append(jnp.tanh(one))
                case "centre":
                    values.append(one - jnp.broadcast_to(one.sum(1, keepdims=True), one.shape))
                case "reverse":
                    values.append(jnp.flip(one, 0))
        return values[-1] + values[-2] if both else values[-1]

    return f


def small_program(seed: int) -> Plan:
    """A random program of a few ops, with shardings of its arguments."""
    rng = random.Random(seed)
    mesh, specs = _mesh(seed)
    program = sw.from_jax(_function(rng), *[jnp.ones((8, 8))] * 2)
    return program.shard(mesh, {number: rng.choice(specs) for number in range(2)})


def region_program(seed: int) -> Plan:
    """A few ops in front of a loop or branches, in them, where they read what is outside, and behind them."""
    rng = random.Random(seed)
    kinds = [rng.choice(("product", "turned", "tanh", "add")) for _ in range(4)]
    is_loop, reads_behind = seed % 2, rng.random() < 0.5

    def f(x: Any, w: Any, v: Any) -> Any:
        inside = [lambda y, k=kind, m=matrix: _op(k, y, m) for kind, matrix in zip(kinds, (w, v, w), strict=False)]
        if is_loop:
            y = jax.lax.fori_loop(0, 3, lambda _, y: inside[1](inside[0](y)), x)
        else:
            y = jax.lax.cond(x[0, 0] > 0, inside[0], lambda y: inside[2](inside[1](y)), x)
        return _op(kinds[3], y, w) if reads_behind else y

    mesh, specs = _mesh(seed // 2)
    program = sw.from_jax(f, *[jnp.ones((8, 8))] * 3)
    return program.shard(mesh, {number: rng.choice(specs) for number in range(3)})


def branching_program(seed: int) -> Plan:
    """A few ops in branches, some of these in others or in loops, that read the same values, and maybe one behind them."""
    rng = random.Random(seed)
    left = [3]  # ops

    def block(depth: int) -> Callable[..., Any]:
        kind = rng.choice(("if", "switch", "loop") if depth == 0 else ("if", "loop", "op", "op", "op"))
        if kind == "op" or depth > 2 or left[0] < 1:
            left[0] -= 1
            op, late = rng.choice(("product", "turned", "add", "tanh")), rng.random() < 0.5
            return lambda y, w, v: _op(op, y, v if late else w)
        if kind == "loop":
            inside = block(depth + 1)
            return lambda y, w, v: jax.lax.fori_loop(0, 2, lambda _, z: inside(z, w, v), y)
        branches = [block(depth + 1) for _ in range(3 if kind == "switch" else 2)]
        return lambda y, w, v: jax.lax.switch(jnp.int32(y[0, 0]), [lambda z, b=b: b(z, w, v) for b in branches], y)

    first, behind = block(0), rng.choice((None, "product", "turned"))

    def f(x: Any, w: Any, v: Any) -> Any:
        y = first(x, w, v)
        return _op(behind, y, w) if behind else y

    mesh, specs = _mesh(seed)
    program = sw.from_jax(f, *[jnp.ones((8, 8))] * 3)
    return program.shard(mesh, {number: rng.choice(specs) for number in range(3)})


def _op(kind: str, one: Any, other: Any) -> Any:
    match kind:
        case "product":
            return one @ other
        case "turned":
            return other @ one
        case "tanh":
            return jnp.tanh(one)
    return one + other


def repeated_program(seed: int) -> Plan:
    """A random block of a few ops two to six times one after the other, each with a weight, and all weights split alike."""
    rng = random.Random(seed)
    block, count = _function(rng), 2 + seed % 5
    mesh, specs = _mesh(seed)

    def f(x: Any, *weights: Any) -> Any:
        return functools.reduce(block, weights, x)

    program, of_weights = sw.from_jax(f, *[jnp.ones((8, 8))] * (1 + count)), rng.choice(specs)
    return program.shard(mesh, {0: rng.choice(specs), **dict.fromkeys(range(1, 1 + count), of_weights)})


def _mesh(seed: int) -> tuple[sw.Mesh, list[sw.P]]:
    """A mesh, and ways to split a matrix over it."""
    if seed % 3:
        return LINE, [sw.P("x"), sw.P(None, "x"), sw.P()]
    return GRID, [sw.P("x"), sw.P(None, "y"), sw.P("x", "y")]
