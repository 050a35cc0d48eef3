"""Choices that are mixed of others: each way of the best is one of theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.search.best import BUDGETS
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.integer import solve
from shardwright.partition.search.reduced import Reduced
from shardwright.partition.search.total import times_run
from tests.partition.search.programs import SCALED, begun, ready, small_program


@pytest.mark.parametrize("seed", range(8))
def test_the_best_is_mixed_of_choices_that_are_right_somewhere(seed: int) -> None:
    with Session(hardware=SCALED):
        reduced, distances, found, best = begun(seed)
        even, odd = (
            tuple([way if number % 2 == half else 0 for number, way in enumerate(best.ways)]) for half in (0, 1)
        )
        reduced.read += (even, odd)
        left = reduced.left
        mixed = reduced.mixed(found, distances)
    assert mixed.seconds == pytest.approx(best.seconds, rel=1e-3)
    assert mixed.ways == reduced.found
    assert all(way in some for way, *some in zip(mixed.ways, found.ways, even, odd, strict=True))
    assert mixed.bound == found.bound
    assert reduced.left == left


def test_programs_that_take_many_iterations_leave_less_to_others() -> None:
    with Session(hardware=SCALED):
        graph = ready(small_program(3))
        choices, distances = choice_graph(graph, decide(graph), times_run(graph)), Distances(SCALED)
        most = solution_of(choices, (0,) * len(choices.nodes), distances, 0.0).seconds
        every = [np.arange(node.seconds.size) for node in choices.nodes]
        _, taken = solve(choices, distances, (), most, BUDGETS["default"].each)
        assert taken.iterations > 1
        budget = replace(BUDGETS["default"], all=10 * taken.entries, iterations=taken.iterations + 1)
        reduced = Reduced(choices, (0,) * len(every), most, budget)
        assert reduced.among(every, distances, ()) is not None
        assert reduced.left == (9 * taken.entries, 1)
        assert reduced.among(every, distances, ()) is not None  # nobody knows how many it takes
        assert reduced.left == (8 * taken.entries, 1 - taken.iterations)
        assert reduced.among(every, distances, ()) is None
