"""Every collective and query on random grids, against its definition, device by device."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from shardwright.errors import ShardingError
from shardwright.runtime.execute import Execution
from tests.partition.processes.instances import MAKERS
from tests.partition.processes.running import Run, assert_as_defined, random_run, run_all

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
SHAPES = ((2, 4), (2, 3), (2, 2, 2), (8,), (4, 2), (1, 3, 2))
GRIDS = 3
EACH = 5

Results = dict[str, list[tuple[Run, Execution | ShardingError]]]


def results_of(seed: int) -> Results:
    runs = []
    for name in MAKERS:
        rng = random.Random(f"{name}/{seed}")
        runs += [(name, random_run(name, shape, EACH, rng)) for shape in rng.sample(SHAPES, GRIDS)]
    by_name: Results = {name: [] for name in MAKERS}
    for (name, run), result in zip(runs, run_all([run for _, run in runs]), strict=True):
        by_name[name].append((run, result))
    return by_name


@pytest.fixture(scope="module")
def results() -> Results:
    return results_of(SEED)


@pytest.mark.parametrize("name", list(MAKERS))
def test_a_process_does_what_its_definition_says(name: str, results: Results) -> None:
    assert sum(assert_as_defined(run, outcome) for run, outcome in results[name]) >= GRIDS * EACH


def test_how_much_was_compared(results: Results, record_property: Callable[[str, object], None]) -> None:
    compared = sum(
        sum(map(len, run.expected))
        for runs in results.values()
        for run, outcome in runs
        if assert_as_defined(run, outcome)
    )
    assert compared >= len(MAKERS) * GRIDS * EACH
    record_property("summary", f"per-device programs: {compared} local values of {len(MAKERS)} ops are as defined")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_processes_do_what_their_definitions_say_long(seed: int) -> None:
    for outcomes in results_of(seed).values():
        assert all(assert_as_defined(run, result) for run, result in outcomes)
