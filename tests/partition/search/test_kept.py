"""What a search keeps from round to round is what it would make anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from shardwright.memo import Session
from shardwright.partition.decide import decide, decider
from shardwright.partition.decisions import Computed, Decision
from shardwright.partition.op_split import Given
from shardwright.partition.search.around import Around, improved
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.forests import Forests
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.stars import Stars
from shardwright.partition.search.total import times_run
from tests.partition.search.programs import SCALED, ready, small_program

SEEDS = range(8)


@contextmanager
def _choices(seed: int) -> Iterator[ChoiceGraph]:
    with Session(hardware=SCALED):
        graph = ready(small_program(seed))
        yield choice_graph(graph, decide(graph), times_run(graph))


def _some(graph: ChoiceGraph, rng: Random) -> list[int]:
    return [rng.randrange(len(node.seconds)) for node in graph.nodes]


def _plan_some(graph: ChoiceGraph, distances: Distances, rng: Random) -> None:
    for link in rng.sample(graph.links, len(graph.links) // 2):
        for pair in itertools.product(graph.layouts(link)[:3], repeat=2):
            distances.plan(link.type, *pair)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_know_what_became_known_since(seed: int) -> None:
    rng, distances = Random(seed), Distances(SCALED)
    with _choices(seed) as graph:
        messages = Messages(graph, 1.0)
        messages.least(distances, 2)
        bounds = []
        for _ in range(3):
            _plan_some(graph, distances, rng)
            bounds.append(messages.least(distances, 1))
            assert sum(messages.of_links) + sum(messages.of_nodes) == pytest.approx(bounds[-1])
            messages.chosen()  # which moves all, and puts it back
            for number, link in enumerate(graph.links):
                anew, ends = Stars(graph, distances, 1.0).of(link), (link.maker, *link.readers)
                if anew is None:
                    continue
                given = [messages.given[node][slot] for node, slot in ends]
                for place, own in enumerate(given):
                    least = np.empty(own.size)
                    anew.least(given, [None] * len(ends), place, least)
                    assert np.array_equal(messages.links[number].marginal(place), least - own)
        ways = messages.chosen()
        assert all(after >= before * (1 - 1e-12) for before, after in itertools.pairwise(bounds))
        assert bounds[-1] <= solution_of(graph, ways, distances, 0.0).seconds * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_that_go_on_as_they_led_come_to_no_less(seed: int) -> None:
    distances = Distances(SCALED)
    with _choices(seed) as graph:
        onward, plain = Messages(graph, 1.0), Messages(graph, 1.0)
        bounds = [onward.least(distances, 3) for _ in range(6)]
        least = [plain.least(distances, 3, onward=False) for _ in range(6)][-1]
        taken = solution_of(graph, onward.chosen(), distances, 0.0).seconds
    assert all(after >= before * (1 - 1e-9) for before, after in itertools.pairwise(bounds))
    assert least * (1 - 1e-3) <= bounds[-1] <= taken * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_passed_aside_leaves_messages_as_they_were(seed: int) -> None:
    distances = Distances(SCALED)
    with _choices(seed) as graph:
        first, other = Messages(graph, 1.0), Messages(graph, 1.0)
        assert first.least(distances, 3) == other.least(distances, 3)
        with first.aside():
            first.least(distances, 3, onward=False)
        assert (first.bound, first.least(distances, 2)) == (other.bound, other.least(distances, 2))
        assert np.array_equal(first.block, other.block)


def _tables(graph: ChoiceGraph, distances: Distances) -> list[list[list[float]]]:
    """What each reader of each link takes from each layout that is made."""
    return [[seconds.ravel().tolist() for seconds in distances.of_readers(graph, link)] for link in graph.links]


def test_what_a_link_takes_is_made_anew_only_where_something_between_its_layouts_became_known() -> None:
    is_new = list[bool]()
    for seed in SEEDS:
        with _choices(seed) as graph:
            distances = Distances(SCALED)
            messages = Messages(graph, 1.0)
            messages.least(distances, 1)
            stars, tables = [link.star for link in messages.links], _tables(graph, distances)
            pairs = [
                (link.type, *pair) for link in graph.links for pair in itertools.permutations(graph.layouts(link), 2)
            ]
            any(distances.plan(*pair) or distances.changes for pair in pairs)  # until one is not as thought
            messages.least(distances, 1)
            now = [link.star is not star for link, star in zip(messages.links, stars, strict=True)]
            assert now == [one != other for one, other in zip(tables, _tables(graph, distances), strict=True)]
            is_new += now
    assert 0 < sum(is_new) < len(is_new)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_ways_take_at_least_is_no_more_than_what_choices_with_them_take(seed: int) -> None:
    rng, distances = Random(seed), Distances(SCALED)
    with _choices(seed) as graph:
        messages = Messages(graph, 1.0)
        messages.least(distances, 4)
        least = messages.of_ways()
        choices = [_some(graph, rng) for _ in range(50)]
        taken = [solution_of(graph, ways, distances, 0.0).seconds for ways in choices]
    for ways, seconds in zip(choices, taken, strict=True):
        assert max(of_node[way] for of_node, way in zip(least, ways, strict=True)) <= seconds * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_forests_know_what_became_known_since(seed: int) -> None:
    rng, distances = Random(seed), Distances(SCALED)
    with _choices(seed) as graph:
        forests = Forests(graph, distances, 1.0)
        _plan_some(graph, distances, rng)
        kept, anew = Forests(graph, distances, 1.0, forests), Forests(graph, distances, 1.0)
        choices = [_some(graph, rng) for _ in range(20)]
        assert list(map(kept.seconds, choices)) == list(map(anew.seconds, choices))
        assert kept.improved(choices[0], 3) == anew.improved(choices[0], 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_node_of_what_is_made_better_takes_less_otherwise(seed: int) -> None:
    rng, distances = Random(seed), Distances(SCALED)
    with _choices(seed) as graph:
        ways = improved(graph, _some(graph, rng), distances, 0.0)
        around = Around(graph, ways, distances)
        for number, way in enumerate(ways):
            seconds = around.seconds(number)
            assert seconds[way] <= seconds.min()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_decided_without_telling_of_it_is_what_is_decided(seed: int) -> None:
    with Session(hardware=SCALED):
        graph = ready(small_program(seed))
        decide = decider(graph)
        told, untold = decide(), decide(Given(is_told=False))
    assert not any(one.notes for one in untold.ops if isinstance(one, Computed))
    assert list(map(_without_notes, told.ops)) == list(untold.ops)


def _without_notes(decision: Decision | None) -> Decision | None:
    return replace(decision, notes=()) if isinstance(decision, Computed) else decision
