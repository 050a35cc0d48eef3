"""Deciding and writing are apart: whatever way an op is split, the program that is written computes the same.

Ways are drawn from all that the mesh allows, most of them dearer than what is decided, and taken in any mixture.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence

import pytest

from shardwright.ir.graph import Graph
from shardwright.partition.decide import decide
from shardwright.partition.write import write
from shardwright.runtime.execute import try_jobs
from tests.partition.compare import Case, assert_equal, make_case
from tests.partition.replaced import with_others
from tests.partition.test_every_op import MESHES, TESTED, annotated
from tests.partition.test_random_programs import terminating, well_defined
from tests.propagation.programs import random_program
from tests.rules.corpus import instances

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
COUNT = 12
APART = 4 * COUNT
"""From the first program of a block to that of the next: so many are enough, though not all can be compared."""


def replaced_case(text: str, seed: int) -> tuple[Case, int]:
    """A program with most of its decisions replaced, and how many those are."""
    counts: list[int] = []

    def explicit(graph: Graph) -> Graph:
        decisions, count = with_others(graph, decide(graph), random.Random(seed), share=0.8)
        counts.append(count)
        return write(graph, decisions)

    return make_case(text, seed, explicit), sum(counts)


def run(cases: dict[str, tuple[Case, int]]) -> None:
    """Run all, each against its program for one device; enough decisions are replaced to say something."""
    done = try_jobs([job for case, _ in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    for number, (name, (case, _)) in enumerate(cases.items()):
        assert_equal(name, case, done[2 * number], done[2 * number + 1])
    assert sum(count for _, count in cases.values()) > len(cases) // 2


def random_cases(block: int) -> dict[str, tuple[Case, int]]:
    texts = ((seed, well_defined(terminating(random_program(seed)))) for seed in itertools.count(block * APART))
    # What is written per device has no meaning on one: there is nothing to compare a manual computation with.
    compared = ((seed, text) for seed, text in texts if "manual_computation" not in text)
    return {f"program {seed}": replaced_case(text, seed) for seed, text in itertools.islice(compared, COUNT)}


def cases_of_ops(names: Sequence[str], seed: int) -> dict[str, tuple[Case, int]]:
    cases: dict[str, tuple[Case, int]] = {}
    for name in names:
        rng = random.Random(f"{name}/{seed}")
        mesh = rng.choice(MESHES)
        cases[name] = replaced_case(annotated(list(instances(name, 3, seed)), mesh, rng), seed)
    return cases


def test_programs_split_in_any_other_way_compute_the_same() -> None:
    run(random_cases(SEED))


def test_ops_split_in_any_other_way_compute_the_same() -> None:
    run(cases_of_ops(TESTED[SEED % 4 :: 4], SEED))


@pytest.mark.long
@pytest.mark.parametrize("block", range(30))
def test_programs_split_in_any_other_way_compute_the_same_long(block: int) -> None:
    run(random_cases(1_000 + block))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_ops_split_in_any_other_way_compute_the_same_long(seed: int) -> None:
    run(cases_of_ops(TESTED, seed))
