"""Integer programs by HiGHS, whatever else the process does with it."""

from __future__ import annotations

import math

import highspy
import numpy as np
import pytest

from shardwright.partition.search import highs
from shardwright.partition.search.highs import Minimum, Rows, minimum


def _cheapest_cover(relaxes: bool = False, most: float = math.inf) -> Minimum | None:
    """`x + y + z >= 2`, the last one entered as two halves."""
    numbers, variables = np.array([0, 0, 0, 0]), np.array([0, 1, 2, 2])
    rows = Rows(numbers, variables, np.array([1.0, 1.0, 0.5, 0.5]), np.array([2.0]), np.array([np.inf]))
    return minimum(np.array([3.0, 1.0, 0.75]), 3, rows, 1e-6, 1_000, relaxes, most)[0]


def test_the_least_is_found_and_proven() -> None:
    found = _cheapest_cover()
    assert found is not None
    assert found.values.tolist() == [0, 0, 2]
    assert found.costs == found.bound == pytest.approx(1.5)


@pytest.mark.parametrize("relaxes", [True, False])
def test_what_costs_more_than_it_may_is_not_looked_for(relaxes: bool) -> None:
    enough, too_little = (_cheapest_cover(relaxes, most) for most in (1.6, 1.4))
    assert enough is not None
    assert too_little is not None
    assert enough.costs == pytest.approx(1.5)
    assert too_little.costs == math.inf
    assert 1.4 <= too_little.bound <= 1.5 * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_whole_without_being_asked_to_is_the_least(seed: int) -> None:
    """Of assignments, and of those with one more row, most of whose relaxations are not whole."""
    random = np.random.RandomState(seed)
    places = np.arange(16).reshape(4, 4)
    numbers, variables = (
        np.concatenate([np.repeat(np.arange(8), 4)]),
        np.concatenate([places.ravel(), places.T.ravel()]),
    )
    costs, weights = random.rand(16), random.rand(16)
    ones = np.ones(8)
    plain = Rows(numbers, variables, np.ones(32), ones, ones)
    most = 1.01 * weights[[0, 5, 10, 15]].sum()
    more = Rows(
        np.append(numbers, np.full(16, 8)),
        np.append(variables, np.arange(16)),
        np.append(np.ones(32), weights),
        np.append(ones, -np.inf),
        np.append(ones, most),
    )
    for rows in (plain, more):
        one, other = (minimum(costs, 16, rows, 1e-9, 1_000, relaxes)[0] for relaxes in (True, False))
        assert one is not None
        assert other is not None
        assert one.costs == pytest.approx(other.costs, rel=1e-9)
        assert set(one.values.round(6).tolist()) <= {0.0, 1.0}
        near, _ = minimum(costs, 16, rows, 0.5, 1_000, relaxes=True)
        assert near is not None
        assert near.bound <= other.costs * (1 + 1e-9)
        assert other.costs <= near.costs * (1 + 1e-9)
        assert near.costs * (1 - 0.5) <= near.bound  # as HiGHS has gaps
        assert set(near.values.round(6).tolist()) <= {0.0, 1.0}


def test_in_few_parts_what_relaxations_use_will_do() -> None:
    """Whole numbers at the corners of a triangle cover its sides by two of them, halves by one and a half."""
    numbers, variables = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 2, 0])
    rows = Rows(numbers, variables, np.ones(6), np.ones(3), np.full(3, np.inf))
    near, _ = minimum(np.ones(3), 3, rows, 1e-6, 1, relaxes=True)
    proven, _ = minimum(np.ones(3), 3, rows, 1e-6, 1_000, relaxes=True)
    assert near is not None
    assert proven is not None
    assert near.costs == proven.costs == pytest.approx(2.0)
    assert near.bound == pytest.approx(1.5)
    assert proven.bound == pytest.approx(2.0)


@pytest.mark.parametrize("gap", [1e-6, 1e-2, 0.1, 0.2])
def test_only_what_costs_less_by_most_of_the_gap_is_looked_for_among_all(gap: float) -> None:
    """Seven corners in a circle cover its sides by four of them, halves by three and a half; by 4.5, one costs more."""
    numbers, variables = np.repeat(np.arange(7), 2), np.array([[side, (side + 1) % 7] for side in range(7)]).ravel()
    rows = Rows(numbers, variables, np.ones(14), np.ones(7), np.full(7, np.inf))
    costs = np.ones(7)
    costs[0] = 1.5
    near, _ = minimum(costs, 7, rows, gap, 1_000, relaxes=True)
    best, _ = minimum(costs, 7, rows, 1e-9, 1_000)
    assert near is not None
    assert best is not None
    assert best.costs == best.bound == pytest.approx(4.0)
    assert best.costs <= near.costs * (1 + 1e-9) <= near.bound * (1 + gap) * (1 + 1e-6)
    assert near.bound <= best.costs * (1 + 1e-9)


def test_where_nothing_fulfils_the_rows_there_is_none() -> None:
    rows = Rows(np.array([0]), np.array([0]), np.array([1.0]), np.array([-2.0]), np.array([-1.0]))
    assert minimum(np.array([1.0]), 1, rows, 1e-6, 1_000)[0] is None


def test_what_is_not_found_in_time_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random program 8931 of the graphs was never done with."""
    random = np.random.RandomState(0)
    numbers, variables = np.repeat(np.arange(20), 60), np.tile(np.arange(60), 20)
    rows = Rows(numbers, variables, random.rand(1_200), np.full(20, 7.0), np.full(20, np.inf))
    costs = 1 + random.rand(60)
    found, taken = minimum(costs, 60, rows, 1e-2, 1)
    assert found is not None
    assert taken > 0
    assert minimum(costs, 60, rows, 1e-2, 1)[1] == taken  # the same again
    monkeypatch.setattr(highs, "LONGEST", 0.0)
    assert minimum(costs, 60, rows, 1e-2, 1)[0] is None


@pytest.mark.parametrize("relaxes", [True, False])
def test_where_rounding_leads_astray_nothing_is_found(monkeypatch: pytest.MonkeyPatch, relaxes: bool) -> None:
    """HiGHS ended with an error in a program of Gromov-Wasserstein distances: "Solve error"."""
    monkeypatch.setattr(highspy.Highs, "run", lambda _: highspy.HighsStatus.kError)
    found = _cheapest_cover(relaxes)
    assert found is None or (found.costs == math.inf and found.bound <= 0.0)


def test_nothing_is_printed_and_threads_of_others_do_not_matter(capfd: pytest.CaptureFixture[str]) -> None:
    highspy.Highs.resetGlobalScheduler(True)  # the first who runs says how many threads there are
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 2)
    other.addVars(1, np.zeros(1), np.ones(1))
    assert other.run() == highspy.HighsStatus.kOk
    assert _cheapest_cover() is not None
    assert capfd.readouterr().out == ""
    highspy.Highs.resetGlobalScheduler(True)
