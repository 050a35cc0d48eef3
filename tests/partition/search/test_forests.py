"""Choices made better by forests, beside all choices of the nodes of one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from random import Random

import pytest

from shardwright.memo import Session
from shardwright.partition.decide import decide
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.forests import Forests
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.total import times_run
from shardwright.program import Plan
from tests.models.nets.all import NETS
from tests.partition.search.programs import SCALED, branching_program, ready, small_program

MOST = 20_000
"""Choices of a forest that are looked at; of more, nothing is compared."""


def _choices(seed: int, program: Callable[[int], Plan] = small_program) -> ChoiceGraph:
    graph = ready(program(seed))
    return choice_graph(graph, decide(graph), times_run(graph))


def _some(graph: ChoiceGraph, rng: Random) -> list[int]:
    return [rng.randrange(len(node.seconds)) for node in graph.nodes]


@pytest.mark.parametrize("program", [small_program, branching_program])
@pytest.mark.parametrize("seed", range(8))
def test_a_choice_takes_what_it_does_elsewhere(seed: int, program: Callable[[int], Plan]) -> None:
    rng = Random(seed)
    with Session(hardware=SCALED):
        graph = _choices(seed, program)
        forests = Forests(graph, Distances(SCALED), 1.0)
        for _ in range(20):
            ways = _some(graph, rng)
            taken = solution_of(graph, ways, Distances(SCALED), 0.0).seconds
            assert forests.seconds(ways) == pytest.approx(taken) or (math.isinf(taken) and forests.seconds(ways) > 0.5)


def _is_best(seed: int, program: Callable[[int], Plan] = small_program) -> bool:
    """Compare what is chosen of a forest with all choices of its nodes, and tell whether they are few enough."""
    rng = Random(seed)
    graph = _choices(seed, program)
    forests = Forests(graph, Distances(SCALED), 1e-3)
    ways = _some(graph, rng)
    state = rng.getstate()
    free = list(forests.forest(rng))
    if math.prod(len(graph.nodes[node].seconds) for node in free) > MOST:
        return False
    rng.setstate(state)
    swept = forests.swept(ways, rng, 0.0)
    assert all(one == other for node, (one, other) in enumerate(zip(ways, swept, strict=True)) if node not in free)
    least = math.inf
    for chosen in itertools.product(*[range(len(graph.nodes[node].seconds)) for node in free]):
        for node, way in zip(free, chosen, strict=True):
            ways[node] = way
        least = min(least, forests.seconds(ways))
    assert forests.seconds(swept) == pytest.approx(least)
    return True


def test_a_forest_is_chosen_as_is_the_best_of_all_choices_of_it() -> None:
    with Session(hardware=SCALED):
        assert sum(map(_is_best, range(60))) >= 8


def test_a_forest_of_what_branches_read_is_chosen_as_is_the_best_of_all_choices_of_it() -> None:
    with Session(hardware=SCALED):
        assert sum([_is_best(seed, branching_program) for seed in range(60)]) >= 8


@pytest.mark.parametrize("name", ["gated_recurrent_unit", "beam_search"])
def test_sweeps_make_a_choice_better_and_the_same_again(name: str) -> None:
    with Session(hardware=SCALED):
        graph = ready(NETS[name].plan())
        choices = choice_graph(graph, decide(graph), times_run(graph))
        forests = Forests(choices, Distances(SCALED), 1.0)
        ways = _some(choices, Random(0))
        improved = [forests.improved(ways, 6) for _ in range(2)]
        calm = [forests.seconds(ways)]
        rng, now = Random(1), ways
        for _ in range(6):
            now = forests.swept(now, rng, 0.0)
            calm.append(forests.seconds(now))
    assert improved[0] == improved[1]
    assert forests.seconds(improved[0]) < forests.seconds(ways)
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(calm))
