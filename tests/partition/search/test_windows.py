"""Choices made better in one window of a program after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.memo import Session
from shardwright.partition.search import windows as module
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.reduced import Asked, Reduced
from shardwright.partition.search.windows import windows
from tests.partition.search.programs import SCALED, begun


def asked(reduced: Reduced, distances: Distances) -> Asked:
    """Nothing told in full, and nothing known but what messages tell."""
    return Asked(distances, (), np.inf, reduced.messages.of_ways())


@given(st.lists(st.integers(1, 40), min_size=60, max_size=400))
def test_windows_are_all_of_a_program_and_overlap(ways: list[int]) -> None:
    more = sum(ways) - len(ways)
    found = list(windows(ways))
    if not 2_000 < more <= 4_000:
        assert not found
        return
    first, middle, last = found
    assert (first.start, last.stop) == (0, len(ways))
    assert first.start < middle.start < last.start <= first.stop < middle.stop < last.stop
    for window in found:
        assert sum(ways[window.start : window.stop]) - len(window) <= more // 2 + 2 * 40


def test_nothing_is_chosen_in_windows_of_programs_with_few_ways_or_a_great_many() -> None:
    assert not list(windows([]))
    assert not list(windows([1] * 5_000))
    assert not list(windows([21] * 100))
    assert len(list(windows([21] * 101))) == len(list(windows([21] * 200))) == 3
    assert not list(windows([21] * 201))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_chosen_in_windows_takes_no_more_than_before(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    with Session(hardware=SCALED):
        reduced, distances, found, best = begun(seed)
        bound, left = reduced.messages.least(distances, 4), reduced.left
        better = reduced.in_windows(found, asked(reduced, distances))
        told = solution_of(reduced.graph, better.ways, distances, 0.0)
    assert bound <= best.seconds * (1 + 1e-9)
    assert best.seconds * (1 - 1e-6) <= better.seconds <= found.seconds
    assert better.seconds == pytest.approx(told.seconds, rel=1e-6)
    assert better.seconds < found.seconds or found.seconds <= best.seconds * (1 + 1e-3)
    assert reduced.left == left  # nothing that programs may take which prove


def test_windows_find_the_best_of_most_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW", 0)
    found = list[float]()
    for seed in range(8):
        with Session(hardware=SCALED):
            reduced, distances, start, best = begun(seed)
            reduced.messages.least(distances, 4)
            found.append(reduced.in_windows(start, asked(reduced, distances)).seconds / best.seconds)
    assert np.sort(found)[5] <= 1 + 1e-3
