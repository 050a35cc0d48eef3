"""Efforts that go on from others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwright.cost.hardware import TPU_V5P
from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Computed
from shardwright.partition.search.best import BUDGETS, search
from shardwright.partition.search.integer import Limits
from shardwright.partition.search.total import times_run, total_seconds
from tests.models.nets.all import NETS
from tests.partition.search.programs import ready

HARDLY_ANY = replace(BUDGETS["best"], sweeps=(0, 0), each=Limits(0, 0.0, 0), all=0, rounds=1, passes=0, lifted=0)


@pytest.mark.parametrize("name", ["convolutional_autoencoder", "multigrid", "pipeline"])
def test_the_effort_best_finds_no_less_than_the_one_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself it took 1.13 times as long with a state-space model of real size."""
    monkeypatch.setitem(BUDGETS, "alone", HARDLY_ANY)
    monkeypatch.setitem(BUDGETS, "best", HARDLY_ANY)
    with Session(hardware=TPU_V5P):
        graph = ready(NETS[name].plan())
        _, known = search(graph, "default")
        _, alone = search(graph, "alone")
        decisions, best = search(graph, "best")
        total = total_seconds(graph, decisions, times_run(graph), TPU_V5P)
    assert known.seconds < alone.seconds
    assert total == best.seconds <= known.seconds
    assert best.seconds_least >= known.seconds_least
    assert best.seconds_before == known.seconds_before


def test_what_users_are_told_is_told_of_what_is_found_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGETS, "best", HARDLY_ANY)
    with Session(hardware=TPU_V5P):
        graph = ready(NETS["convolutional_autoencoder"].plan())
        known, best = (search(graph, effort)[0] for effort in ("default", "best"))
    told = [[one.notes for one in found.ops if isinstance(one, Computed)] for found in (known, best)]
    assert any(told[0])
    assert told[0] == told[1]


def test_nothing_is_looked_for_again_where_the_first_effort_proves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(hardware=TPU_V5P):
        graph = ready(NETS["u_net"].plan())
        first = decide(graph)
        _, known = search(graph, "default", first)
        _, best = search(graph, "best", first)
    assert known.gap == pytest.approx(0, abs=1e-5)
    assert best == known
