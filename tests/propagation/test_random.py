"""Random programs, every value compared with the C++ Shardy's. `SHARDWRIGHT_FUZZ=N` runs N of them."""

from __future__ import annotations

import os

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS, differences
from tests.propagation.programs import random_program

_BATCH = 500


@pytest.mark.oracle
def test_random_programs_are_sharded_as_shardy_does() -> None:
    count = int(os.environ.get("SHARDWRIGHT_FUZZ", "200"))
    for start in range(0, count, _BATCH):
        _check(list(range(start, min(start + _BATCH, count))))


def _check(seeds: list[int]) -> None:
    graphs = [read(load_module(random_program(seed))) for seed in seeds]
    outputs = run_batch([(str(write(graph)), UP_TO_RESHARDS) for graph in graphs])
    for seed, graph, output in zip(seeds, graphs, outputs, strict=True):
        program = f"seed {seed}:\n{random_program(seed)}"
        assert not isinstance(output, ShardyFailure), f"the C++ failed on {program}\n{output}"
        found = differences(propagate(graph), output)
        assert not found, "\n".join([program, *found])
