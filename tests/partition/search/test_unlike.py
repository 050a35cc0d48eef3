"""What is read off the messages of a graph that was folded: ops that are alike need not be chosen alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

import shardwright as sw
from shardwright.memo import Session
from shardwright.partition.search import whole
from shardwright.partition.search.best import BUDGETS, Searched, search
from shardwright.partition.search.reduced import Budget
from shardwright.partition.search.total import times_run, total_seconds
from tests.partition.search.programs import SCALED, ready, repeated_program

FOLDED = replace(BUDGETS["default"], whole=0, nodes=1, apart=0, unfolded=0)
"""Whatever is alike is chosen alike, at first."""
UNFOLDED = replace(FOLDED, unfolded=BUDGETS["default"].unfolded)
"""And then each by itself, where too much is left unproven."""


def _searched(plan: sw.Plan, times: int, monkeypatch: pytest.MonkeyPatch, budget: Budget = FOLDED) -> Searched:
    """What a search comes to in which something is read off so often."""
    monkeypatch.setattr(whole, "_READ_OFF", times)
    monkeypatch.setitem(BUDGETS, "default", budget)
    with Session(hardware=SCALED):
        graph = ready(plan)
        decisions, searched = search(graph, "default")
        assert total_seconds(graph, decisions, times_run(graph), SCALED) == searched.seconds
    return searched


@pytest.mark.parametrize("seed", [2, 4, 9, 15, 29, 36])
def test_what_is_better_chosen_otherwise_is_found_and_proven(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = repeated_program(seed)
    alike, unlike = (_searched(plan, times, monkeypatch) for times in (0, 4))
    assert unlike.seconds < 0.99 * alike.seconds
    assert unlike.seconds == pytest.approx(unlike.seconds_least, rel=1e-6)
    assert unlike.seconds_least_alike <= unlike.seconds


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_by_it(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = repeated_program(seed)
    alike, unlike = (_searched(plan, times, monkeypatch) for times in (0, 4))
    assert unlike.seconds <= alike.seconds
    assert alike.seconds_least <= unlike.seconds * (1 + 1e-9)
    assert alike.seconds_least <= unlike.seconds_least * (1 + 1e-9) <= unlike.seconds * (1 + 2e-9)
    with Session(hardware=SCALED):
        monkeypatch.setitem(BUDGETS, "default", replace(FOLDED, whole=10_000))
        _, apart = search(ready(plan), "default")
    assert unlike.seconds_least <= apart.seconds * (1 + 1e-9)
    assert apart.seconds_least <= unlike.seconds * (1 + 1e-9)


@pytest.mark.parametrize("seed", [2, 4, 9, 15, 29, 36])
def test_where_too_much_is_left_unproven_all_is_chosen_by_itself(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = repeated_program(seed)
    alike, by_itself = (_searched(plan, 0, monkeypatch, budget) for budget in (FOLDED, UNFOLDED))
    assert alike.gap is not None
    assert alike.gap > 0.01
    assert by_itself.seconds < 0.99 * alike.seconds
    assert by_itself.seconds == pytest.approx(by_itself.seconds_least, rel=1e-6)
    assert by_itself.trials > alike.trials


def test_what_is_near_enough_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    near = 0
    for seed in range(12):
        plan = repeated_program(seed)
        alike, by_itself = (_searched(plan, 4, monkeypatch, budget) for budget in (FOLDED, UNFOLDED))
        assert alike.gap is not None
        if alike.gap <= 0.01:
            near += 1
            assert by_itself == alike
    assert near > 4


def test_what_is_chosen_otherwise_is_run_and_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "default", FOLDED)
    with Session(hardware=SCALED):
        spmd = repeated_program(29).partition(effort="default")
        assert spmd.searched is not None
        assert spmd.searched.gap == pytest.approx(0, abs=1e-6)
        spmd.verify().require()
