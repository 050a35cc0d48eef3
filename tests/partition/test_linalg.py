"""All linear algebra of JAX × shardings of its arguments: what eight devices compute is what one computes.

What cannot be computed in parts is computed whole, and a note says so.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax.numpy.linalg
import jax.scipy.linalg
import numpy as np
import pytest

import shardwright as sw
from shardwright.errors import ShardingError
from shardwright.program import Program, Spmd
from shardwright.runtime.execute import Execution, Job, try_jobs
from tests.models.linalg import CASES, LinalgCase

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
MESH = sw.Mesh(data=2, model=4)
COUNT = 24
"""Functions of the test run, each with one sharding of its arguments."""


def shardings_of(rank: int) -> list[tuple[Any, ...]]:
    """All ways to give the axes to dimensions: each to one or none, in both orders where they meet."""
    specs: list[tuple[Any, ...]] = []
    places: list[int | None] = [None, *range(rank)]
    for data, model in itertools.product(places, places):
        for names in (("data", "model"), ("model", "data")):
            dims: list[list[str]] = [[] for _ in range(rank)]
            for name in names:
                place = data if name == "data" else model
                if place is not None:
                    dims[place].append(name)
            spec = tuple(tuple(dim) or None for dim in dims)
            if spec not in specs:
                specs.append(spec)
    return specs


@dataclass
class Tried:
    """One sharding of one function's arguments."""

    name: str
    specs: tuple[tuple[Any, ...], ...]
    spmd: Spmd
    job: Job


@dataclass
class Counts:
    """How the calls of a function were computed."""

    local: int = 0
    whole: int = 0
    wrong: list[str] = field(default_factory=list)


@cache
def program_of(name: str) -> Program:
    case = CASES[name]
    return sw.from_jax(case.function, *case.arguments)


def tried(name: str, specs: tuple[tuple[Any, ...], ...]) -> Tried:
    program = program_of(name)
    args: dict[str | int, Any] = {number: sw.P(*spec) for number, spec in enumerate(specs)}
    spmd = program.shard(MESH, args=args).partition()
    inputs = tuple(spmd.inputs(list(CASES[name].arguments)))
    types = tuple(program.results.values())
    return Tried(name, specs, spmd, Job(spmd.module(), inputs, MESH, spmd.in_shardings, spmd.out_shardings, types))


def unnoted(spmd: Spmd) -> list[str]:
    """Custom calls whose operands are gathered and of which no note speaks."""
    graph = spmd.explicit
    gathered = {value for op in graph.walk() if op.name == "sdy.all_gather" for value in op.results}
    noted = {(note.op, note.location) for note in spmd.notes}
    return [
        op.signature.label
        for op in graph.walk()
        if op.name == "stablehlo.custom_call"
        and not gathered.isdisjoint(op.operands)
        and (op.signature.label, str(graph.locations[op.location])) not in noted
    ]


def problem(one: Tried, unsharded: Execution | ShardingError, local: Execution | ShardingError) -> str:
    """What is wrong, or nothing."""
    if isinstance(unsharded, ShardingError) or isinstance(local, ShardingError):
        return f"{unsharded if isinstance(unsharded, ShardingError) else local}"
    if local.differences:
        return f"copies differ: {local.differences}"
    if silent := unnoted(one.spmd):
        return f"computed whole without a note: {silent}"
    for number, (expected, actual) in enumerate(zip(unsharded.outputs, local.outputs, strict=True)):
        scale = float(np.abs(expected).max(initial=0)) if expected.dtype.kind in "fc" else 0.0
        if expected.shape != actual.shape or not np.allclose(
            expected, actual, rtol=0, atol=2e-5 * scale, equal_nan=True
        ):
            return f"result {number} differs by {np.abs(expected - actual).max()} of {scale}"
    return ""


def run(names: Sequence[str], choose: dict[str, list[tuple[tuple[Any, ...], ...]]]) -> dict[str, Counts]:
    """Partition, run and compare each function with the shardings chosen for it."""
    every = [tried(name, specs) for name in names for specs in choose[name]]
    bare = [Job(program_of(name).unsharded(), tuple(map(np.asarray, CASES[name].arguments))) for name in names]
    done = try_jobs([*bare, *(one.job for one in every)], timeout=3000)
    expected = dict(zip(names, done, strict=False))
    counts = {name: Counts() for name in names}
    for one, result in zip(every, done[len(names) :], strict=True):
        count = counts[one.name]
        if wrong := problem(one, expected[one.name], result):
            count.wrong.append(f"{one.name} {one.specs}: {wrong}")
        elif one.spmd.notes:
            count.whole += 1
        else:
            count.local += 1
    return counts


def every_sharding(case: LinalgCase) -> Iterator[tuple[tuple[Any, ...], ...]]:
    return itertools.product(*(shardings_of(np.ndim(argument)) for argument in case.arguments))


def test_all_functions_are_tried() -> None:
    for room, module in (("numpy", jax.numpy.linalg), ("scipy", jax.scipy.linalg)):
        names = {name for name in dir(module) if not name.startswith("_") and callable(getattr(module, name))}
        assert names == {name.partition("/")[0].partition(".")[2] for name in CASES if name.startswith(room)}


def test_a_seeded_part_is_equal_or_whole_with_a_note() -> None:
    rng = random.Random(SEED)
    chosen = {}
    for name in rng.sample(sorted(name for name in CASES if CASES[name].arguments), COUNT):
        sharded = [specs for specs in every_sharding(CASES[name]) if any(any(spec) for spec in specs)]
        chosen[name] = [rng.choice(sharded)]
    counts = run(list(chosen), chosen)
    assert [wrong for count in counts.values() for wrong in count.wrong] == []


@pytest.mark.long
def test_every_sharding_is_equal_or_whole_with_a_note() -> None:
    total = Counts()
    for name, case in CASES.items():
        (count,) = run([name], {name: list(every_sharding(case))}).values()
        print(
            f"{name}: {count.local} without a note, {count.whole} whole with notes, {len(count.wrong)} wrong",
            flush=True,
        )
        total.local, total.whole = total.local + count.local, total.whole + count.whole
        total.wrong += count.wrong
    print(f"all: {total.local} without a note, {total.whole} whole with notes, {len(total.wrong)} wrong")
    assert total.wrong == []
