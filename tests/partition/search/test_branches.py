"""What values take that are read in several branches, beside all that may be made for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import TPU_V5P
from shardwright.memo import Session
from shardwright.partition.decide import decider
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.best import search
from shardwright.partition.search.branches import Branches
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.integer import Limits, solve
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.stars import Apart, star_of
from shardwright.partition.search.total import times_run
from tests.partition.search.every_choice import EveryChoice
from tests.partition.search.programs import SCALED, branching_program, ready

TREES = [
    Branches((1.0, 0.5, 0.5), (0, 0, 0), ((), (0,), (1,))),
    Branches((1.0, 0.5, 0.5), (0, 0, 0), ((2,), (0,), (1, 3))),
    Branches((2.0, 0.5, 0.5, 0.25, 0.25), (0, 0, 0, 1, 1), ((), (), (0,), (1,), (2,))),
    Branches((1.0, 0.5, 0.5, 0.5, 0.25, 0.25), (0, 0, 0, 0, 3, 3), ((), (0, 4), (1,), (), (2,), (3,))),
]
"""Branches beside each other, those of several ops too, and others in them."""


def _taken(branches: Branches, seconds: Sequence[float]) -> float:
    """By how far versions may reach that are made in each scope or around it."""
    reach = sorted({0.0, *seconds})
    least = math.inf
    for far in itertools.product(reach, repeat=len(branches.runs)):
        around = [0.0, *map(far.__getitem__, branches.around[1:])]
        wanted = [max(map(seconds.__getitem__, readers), default=0.0) for readers in branches.readers]
        if all(one >= max(two) for one, *two in zip(far, around, wanted, strict=True)):
            made = zip(branches.runs, far, around, strict=True)
            least = min(least, sum([runs * (one - other) for runs, one, other in made]))
    return least


@pytest.mark.parametrize("branches", TREES)
def test_what_readers_in_branches_take_is_the_cheapest_that_may_be_made_for_them(branches: Branches) -> None:
    rng, count = Random(3), sum(map(len, branches.readers))
    several = [[rng.choice((0.0, 0.5, rng.random())) for _ in range(count)] for _ in range(20)]
    expected = [_taken(branches, seconds) for seconds in several]
    assert [float(branches.taken(seconds)) for seconds in several] == pytest.approx(expected)
    assert branches.taken(list(np.array(several).T)) == pytest.approx(np.array(expected))


def test_what_cannot_be_read_in_one_branch_takes_forever() -> None:
    for seconds in ([1.0, math.inf], [math.inf, math.inf]):
        assert TREES[0].taken(seconds) == math.inf


def _tables(rng: Random, sizes: Sequence[int]) -> list[Seconds]:
    made, *read = sizes
    return [np.array([[rng.choice((0.0, 0.5, rng.random())) for _ in range(one)] for _ in range(made)]) for one in read]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("branches", TREES)
def test_what_a_value_takes_at_least_is_the_least_of_all_that_its_ends_choose(branches: Branches, seed: int) -> None:
    rng = Random(seed)
    sizes = [rng.randint(1, 3) for _ in range(1 + sum(map(len, branches.readers)))]
    seconds = _tables(rng, sizes)
    few, many = star_of(seconds, branches), Apart(seconds, branches)
    for place in range(len(sizes)):
        given = [np.array([rng.random() if size > 1 else 0.0 for _ in range(size)]) for size in sizes]
        least = np.full(sizes[place], np.inf)
        for chosen in itertools.product(*map(range, sizes)):
            taken = float(branches.taken([one[chosen[0], read] for one, read in zip(seconds, chosen[1:], strict=True)]))
            taken -= sum([float(given[end][layout]) for end, layout in enumerate(chosen) if end != place])
            least[chosen[place]] = min(least[chosen[place]], taken)
        for star in (few, many):
            found = np.empty(sizes[place])
            star.least(given, [None] * len(sizes), place, found)
            assert found == pytest.approx(least)


# --- programs


def _layer(x: jax.Array, w: jax.Array, v: jax.Array) -> Any:
    return jax.lax.cond(x[0, 0] > 0, lambda y: jnp.tanh(y @ w) @ v, lambda y: jnp.tanh(y @ v.T) @ w.T, x)


def _nested(x: jax.Array, w: jax.Array, v: jax.Array) -> Any:
    def inner(y: jax.Array) -> Any:
        return jax.lax.cond(y[1, 1] > 0, lambda z: z @ w @ v, lambda z: (z @ v.T) @ w.T, jnp.sin(y))

    return jax.lax.cond(x[0, 0] > 0, inner, lambda y: y + jnp.tanh(y @ w) @ (v * 2), x)


def _layers(layer: Any, count: int, mesh: sw.Mesh, weights: sw.P) -> sw.Plan:
    """Layers of which each has two weights of its own."""

    def f(x: jax.Array, *weights: jax.Array) -> Any:
        for number in range(count):
            x = layer(x, *weights[2 * number : 2 * number + 2])
        return x

    of_layer = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((1024, 4096), (4096, 1024))]
    program = sw.from_jax(f, jax.ShapeDtypeStruct((2048, 1024), "float32"), *of_layer * count)
    return program.shard(mesh, {0: sw.P("x"), **dict.fromkeys(range(1, 1 + 2 * count), weights)})


LINE, GRID = (sw.Mesh(x=8), sw.P("x")), (sw.Mesh(x=4, y=2), sw.P("x", "y"))


@pytest.mark.parametrize("layer", [_layer, _nested])
@pytest.mark.parametrize("mesh", [LINE, GRID])
def test_layers_with_branches_are_proven_to_be_the_best_there_are(layer: Any, mesh: tuple[sw.Mesh, sw.P]) -> None:
    """By what their dearest readers take, those on the grid were at least 44 % from what was proven."""
    with Session(hardware=TPU_V5P):
        _, searched = search(ready(_layers(layer, 12, *mesh)), "default")
    assert searched.gap == pytest.approx(0, abs=1e-5)


def test_messages_alone_tell_what_values_take_that_both_branches_read() -> None:
    with Session(hardware=TPU_V5P):
        graph = ready(_layers(_layer, 2, *GRID))
        _, searched = search(graph)
        distances, choices = Distances(TPU_V5P), choice_graph(graph, decider(graph)(), times_run(graph))
        _plan_all(choices, distances)
        bound = Messages(choices, 10 * searched.seconds_before).least(distances, 20)
    assert bound == pytest.approx(searched.seconds, rel=1e-3)


def _plan_all(choices: ChoiceGraph, distances: Distances) -> None:
    for link in choices.links:
        for one, other in itertools.product(choices.layouts(link), repeat=2):
            distances.plan(link.type, one, other)


@pytest.mark.parametrize("seed", range(6))
def test_integer_programs_tell_the_same_of_what_branches_read(seed: int) -> None:
    with Session(hardware=SCALED):
        graph = ready(branching_program(seed))
        choices = choice_graph(graph, decider(graph)(), times_run(graph))
        found, _ = solve(choices, Distances(SCALED), (), 1e-8, Limits(1_000_000, 1e-9, 100_000_000))
        assert found is not None
        told = solution_of(choices, found.ways, Distances(SCALED), 0.0)
    assert told.seconds == pytest.approx(found.seconds, rel=1e-6)
    assert told.links == pytest.approx(found.links, rel=1e-6, abs=1e-15)


def test_what_few_branches_read_is_not_made_in_front_of_all() -> None:
    """One of the branches of each of two ops of three."""

    def f(x: jax.Array, w: jax.Array) -> Any:
        for _ in range(2):
            x = jax.lax.switch(jnp.int32(x[0, 0]), [lambda y: jnp.tanh(y @ w), jnp.sin, jnp.cos], x)
        return x

    program = sw.from_jax(f, jnp.ones((512, 64)), jnp.ones((64, 64)))
    plan = program.shard(sw.Mesh(x=4), {0: sw.P("x"), 1: sw.P("x")})
    with Session(hardware=TPU_V5P):
        _, searched = search(ready(plan))
    assert searched.gap == pytest.approx(0, abs=1e-5)
    spmd = plan.partition(effort="best")
    assert sum([use.static for use in spmd.traffic.kinds.values()]) >= 2
    spmd.verify().require()


MOST = 6_000
"""Choices of a program that are looked at here."""

FEW, MANY = 3, 4
"""Readers that a value may have: what may be made for more is too much to be looked at."""


def _check(seed: int, readers: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Compare with all choices, and tell whether there are few enough."""
    monkeypatch.setattr("tests.partition.search.every_choice.MOST", MOST)
    with Session(hardware=SCALED):
        graph = ready(branching_program(seed))
        choices = choice_graph(graph, decider(graph)(), times_run(graph))
        if max([len(link.readers) for link in choices.links]) > readers:
            return False
        least = EveryChoice(choices).least()
        if least is None:
            return False
        _, searched = search(graph, most_held=math.inf)
        distances = Distances(SCALED)
        _plan_all(choices, distances)
        bound = Messages(choices, 10 * searched.seconds_before or 1.0).least(distances, 10)
    assert bound <= least * (1 + 1e-9)
    assert searched.seconds <= least * (1 + 1e-5)
    assert searched.gap == pytest.approx(0, abs=1e-4)
    return True


def test_some_programs_of_branches_take_what_the_best_of_all_choices_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum([_check(seed, FEW, monkeypatch) for seed in range(40)]) >= 15


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_programs_of_branches_take_what_the_best_of_all_choices_takes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not _check(seed, MANY, monkeypatch):
        pytest.skip(f"more than {MOST} choices, or more than {MANY} readers of a value: comparing takes too long")
