"""Random explicit programs, most of them split in any way but the best: made better, they compute the same.

How their ops are split is drawn from all that the mesh allows (`tests.partition.replaced`), so they gather, scatter and
move as no partitioner would.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter

import pytest

from shardwright.ir.graph import Graph
from shardwright.memo import Session
from shardwright.optimize import optimizations, optimize
from shardwright.partition.decide import decide
from shardwright.partition.write import write
from shardwright.runtime.execute import try_jobs
from tests.optimize.explicit import NO_LATENCY
from tests.partition.compare import Case, assert_equal, make_case
from tests.partition.replaced import with_others
from tests.partition.test_every_op import MESHES, TESTED, annotated
from tests.partition.test_random_programs import terminating, well_defined
from tests.propagation.programs import random_program
from tests.rules.corpus import instances

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
COUNT = 40
APART = 8 * COUNT
"""From the first program of a block to that of the next: so many are enough, though not all are made better."""


def better_case(text: str, seed: int) -> tuple[Case, Counter[str]]:
    """A program split in other ways and made better, by all passes or by one, and how often each changed something."""
    changes: Counter[str] = Counter()
    rng = random.Random(seed)
    names = None if rng.random() < 0.5 else [rng.choice(optimizations()).name]
    hardware = rng.choice([None, NO_LATENCY])  # where starts cost nothing, more is in parts

    def improved(graph: Graph) -> Graph:
        decisions, _ = with_others(graph, decide(graph), rng, share=0.8)
        explicit = write(graph, decisions)
        with Session(hardware=hardware):
            made = optimize(explicit, names, exact=rng.random() < 0.2)
        changes.update(one.by for one in made.improvements)
        assert all(one.seconds_saved > -1e-15 for one in made.improvements)
        return made.graph

    return make_case(text, seed, improved), changes


def run(cases: dict[str, Case]) -> None:
    done = try_jobs([job for case in cases.values() for job in (case.unsharded, case.local)], timeout=600)
    for number, (name, case) in enumerate(cases.items()):
        assert_equal(name, case, done[2 * number], done[2 * number + 1])


def check_programs(block: int) -> None:
    """Programs that something is changed in, and enough kinds of changes to say something."""
    cases: dict[str, Case] = {}
    changes: Counter[str] = Counter()
    for seed in itertools.count(block * APART):
        text = well_defined(terminating(random_program(seed)))
        if "manual_computation" in text:  # what is written per device has no meaning on one
            continue
        case, changed = better_case(text, seed)
        if changed:
            cases[f"program {seed}"] = case
            changes += changed
        if len(cases) == COUNT:
            break
    run(cases)
    assert len(changes) > 4, changes


def check_ops(names: list[str], seed: int) -> None:
    cases: dict[str, Case] = {}
    for name in names:
        rng = random.Random(f"{name}/{seed}")
        text = annotated(list(instances(name, 3, seed)), rng.choice(MESHES), rng)
        case, changed = better_case(text, seed)
        if changed:
            cases[name] = case
    run(cases)


def test_random_programs_compute_the_same() -> None:
    check_programs(SEED)


def test_ops_of_every_family_compute_the_same() -> None:
    check_ops(TESTED[SEED % 4 :: 4], SEED)


@pytest.mark.long
@pytest.mark.parametrize("block", range(30))
def test_random_programs_compute_the_same_long(block: int) -> None:
    check_programs(1_000 + block)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_ops_of_every_family_compute_the_same_long(seed: int) -> None:
    check_ops(TESTED, seed)
