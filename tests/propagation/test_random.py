"""Random programs, every value compared with the C++ Shardy's.

`SHARDWRIGHT_FUZZ=100000 pytest tests/propagation/test_random.py` runs as many wide programs instead of 3,000.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import pytest

from shardwright.ir.context import load_module
from shardwright.notation.modules import read, write
from shardwright.propagation import propagate
from tests.jaxlib_differences import explains
from tests.oracles.shardy import ShardyFailure, run_batch
from tests.propagation.comparison import UP_TO_RESHARDS, differences
from tests.propagation.programs import random_program
from tests.propagation.programs_wide import wide_program
from tests.propagation.shrink import shrunk
from tests.propagation.wide import compared, compared_as_called, is_annotated_at_calls

_COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "3000"))
_CHUNKS = 12
_BATCH = 500
_DEATHS = 0.01
"""How many programs the C++ may die of."""
_DELIBERATE = re.compile(r"sdy\.manual_computation.* (?:in|out)_shardings=.*\}p\d|sdy\.mesh @other")
"""Where docs/differences.md tells of rare ones: a priority at the boundary of a manual computation, several meshes."""
_DELIBERATELY = 0.001
_NEWER = 0.12
"""How many programs a newer jaxlib than the locked one may shard otherwise, for reasons that `tests.jaxlib_differences` lists."""


@pytest.mark.oracle
def test_random_programs_are_sharded_as_shardy_does() -> None:
    seeds = range(200)
    graphs = [read(load_module(random_program(seed))) for seed in seeds]
    outputs = run_batch([(str(write(graph)), UP_TO_RESHARDS) for graph in graphs])
    for seed, graph, output in zip(seeds, graphs, outputs, strict=True):
        program = f"seed {seed}:\n{random_program(seed)}"
        assert not isinstance(output, ShardyFailure), f"the C++ failed on {program}\n{output}"
        unlike = differences(propagate(graph), output)
        assert not unlike or explains(program, unlike), "\n".join([program, *unlike])


@pytest.mark.oracle
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_wide_random_programs_are_sharded_as_shardy_does(
    chunk: int, record_property: Callable[[str, object], None]
) -> None:
    seeds = range(chunk, _COUNT, _CHUNKS)
    deaths = deliberate = newer = 0
    for start in range(0, len(seeds), _BATCH):
        batch = seeds[start : start + _BATCH]
        texts = [wide_program(seed) for seed in batch]
        for seed, text, outcome in zip(batch, texts, compared(texts), strict=True):
            deaths += bool(outcome.died)
            explained = bool(outcome.differences) and explains(text, outcome.differences)
            newer += explained
            known = (
                bool(outcome.differences) and not (explained or outcome.died) and _DELIBERATE.search(text) is not None
            )
            deliberate += known
            assert known or explained or not outcome.differences, _report(seed)
    summary = f"{len(seeds)} random modules as the C++ has them"
    summary += f", {deliberate} deliberately not" if deliberate else ""
    summary += f", {newer} as those of 0.10 only" if newer else ""
    record_property("summary", f"propagation, part {chunk}: {summary}; it dies of {deaths}")
    assert deliberate <= max(1, _DELIBERATELY * len(seeds)), "a difference that is common is none of those listed"
    assert newer <= _NEWER * len(seeds), "what newer versions do otherwise is rare"
    assert deaths <= max(2, _DEATHS * len(seeds)), "the C++ dies of too many programs to say much"


@pytest.mark.oracle
def test_calls_of_which_something_is_said_are_sharded_as_shardy_does(
    record_property: Callable[[str, object], None],
) -> None:
    programs = ((seed, wide_program(seed)) for seed in range(_COUNT // 2))
    seeds, texts = zip(*((seed, text) for seed, text in programs if is_annotated_at_calls(text)), strict=True)
    for seed, text, outcome in zip(seeds, texts, compared_as_called(texts), strict=True):
        assert not outcome.differences or explains(text, outcome.differences), f"seed {seed}:\n{text}\n" + "\n".join(
            outcome.differences
        )
    record_property("summary", f"propagation: {len(seeds)} random modules with annotated calls as the C++ has them")


def _report(seed: int) -> str:
    def misbehave(texts: Sequence[str]) -> list[bool]:
        pairs = zip(texts, compared(texts), strict=True)
        return [bool(outcome.differences) and not explains(text, outcome.differences) for text, outcome in pairs]

    small = shrunk(wide_program(seed), misbehave)
    (outcome,) = compared([small])
    return "\n".join([f"seed {seed}, made smaller:", small, *outcome.differences])
