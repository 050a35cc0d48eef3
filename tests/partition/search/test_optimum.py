"""What the search finds in small programs beside all programs that there are."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from shardwright.ir.graph import Graph
from shardwright.memo import Session
from shardwright.partition import decide as deciding
from shardwright.partition.assign import choices
from shardwright.partition.decide import decider
from shardwright.partition.op_split import Situation, Split, split_as
from shardwright.partition.proposals import from_mesh
from shardwright.partition.search.best import search
from shardwright.partition.search.total import times_run, total_seconds
from shardwright.partition.ways import Choice
from tests.partition.search.programs import SCALED, ready, small_program

MOST = 1500
"""Programs that all there are may be; of more, nothing is compared."""

FEW = range(10)
ALL = range(251)


class _NotSaid(Exception):
    """An op is in a situation of which nothing is said."""


def _least(graph: Graph) -> float | None:
    """The least that any program takes, ops in one situation being split alike; `None` if there are too many."""
    decide, times = decider(graph), times_run(graph)
    least, count = float("inf"), 0
    ahead: list[Mapping[Situation, Choice]] = [{}]
    while ahead:
        said = ahead.pop()
        missing: list[Situation] = []

        def split_as_said(
            situation: Situation, said: Mapping[Situation, Choice] = said, missing: list[Situation] = missing
        ) -> Split:
            if situation not in said:
                missing.append(situation)
                raise _NotSaid
            return split_as(said[situation], situation)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deciding, "pointwise_in_place", lambda *_: None)
            patch.setattr(deciding, "split_alike", split_as_said)
            try:
                decisions = decide()
            except _NotSaid:
                (situation,) = missing
                ahead += [{**said, situation: choice} for choice in _all_choices(situation)]
                continue
        count += 1
        if count > MOST:
            return None
        least = min(least, total_seconds(graph, decisions, times, SCALED))
    return least


def _all_choices(situation: Situation) -> tuple[Choice, ...]:
    """All choices that an op has, each once."""
    signature, sources, _, passing, *_ = situation
    listed = choices(signature, sources, situation.targets, passing, from_mesh)
    return tuple({(choice.operands, choice.results): choice for choice in listed}.values())


def _check(seed: int) -> bool:
    """Compare, and tell whether that could be done."""
    with Session(hardware=SCALED):
        graph = ready(small_program(seed))
        least = _least(graph)
        if least is None:
            return False
        _, searched = search(graph, most_held=math.inf)
    assert searched.gap == pytest.approx(0, abs=1e-5)
    assert searched.seconds <= least * (1 + 1e-9)
    return True


def test_some_small_programs_are_the_fastest_that_there_are() -> None:
    assert sum(map(_check, FEW)) >= 5


@pytest.mark.long
@pytest.mark.parametrize("seed", range(len(FEW), len(ALL)))
def test_small_programs_are_the_fastest_that_there_are(seed: int) -> None:
    if not _check(seed):
        pytest.skip(f"more than {MOST} programs")
