"""What values take with all of their versions, beside every order in which these may be made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

import shardwright as sw
from shardwright.cost.hardware import TPU_V5P
from shardwright.partition.decide import decide
from shardwright.partition.fewer_ops import with_fewer_ops
from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.around import Around
from shardwright.partition.search.best import search
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.chosen import solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph, Link
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.sets import Sets
from shardwright.partition.search.total import times_run
from shardwright.partition.search.trees import Trees, are_few
from tests.models.all import models
from tests.partition.search.programs import SCALED, ready, small_program


def _between(rng: Random, count: int) -> Seconds:
    """What it takes from each of some layouts to each other: some takes nothing, some is impossible."""
    table = [[rng.choice((0.0, math.inf, rng.random(), rng.random())) for _ in range(count)] for _ in range(count)]
    seconds = np.array(table)
    np.fill_diagonal(seconds, 0.0)
    return seconds


def _least(between: Seconds, made: int, read: Sequence[int]) -> float:
    """The least that it takes to have all that is read: one version after the other is made of any that is there."""
    known = {frozenset([made]): 0.0}
    for _ in range(len(between) - 1):
        for there, taken in list(known.items()):
            for before, after in itertools.product(there, range(len(between))):
                more, seconds = there | {after}, taken + float(between[before, after])
                known[more] = min(known.get(more, math.inf), seconds)
    return min([taken for there, taken in known.items() if there.issuperset(read)], default=math.inf)


@pytest.mark.parametrize("seed", range(12))
def test_trees_take_the_least_that_all_versions_may(seed: int) -> None:
    rng = Random(seed)
    count, ends = rng.randrange(2, 6), rng.randrange(1, 4)
    between, made = _between(rng, count), np.arange(count)
    read = [np.array(sorted(rng.sample(range(count), rng.randrange(1, count)))) for _ in range(ends)]
    trees = Trees(between)
    table = trees.table(made, read)
    for place in itertools.product(range(count), *[range(one.size) for one in read]):
        wanted = [int(layouts[number]) for layouts, number in zip(read, place[1:], strict=True)]
        least = _least(between, place[0], wanted)
        assert table[place] == pytest.approx(least)
        if math.isfinite(least):
            arcs = trees.arcs(place[0], wanted)
            assert sum([float(between[arc]) for arc in arcs]) == pytest.approx(least)
            there = {place[0]}
            for _ in arcs:
                there |= {after for before, after in arcs if before in there}
            assert there.issuperset(wanted)


@pytest.mark.parametrize("seed", range(8))
def test_sets_of_layouts_tell_the_same_as_all_that_ends_may_choose(seed: int) -> None:
    rng, numbers = Random(seed), np.random.default_rng(seed)
    count, ends = rng.randrange(2, 6), rng.randrange(2, 5)
    trees = Trees(_between(rng, count))
    made, *read = [np.array(sorted(rng.sample(range(count), rng.randrange(1, count + 1)))) for _ in range(1 + ends)]
    table, sets = trees.table(made, read), Sets(trees.sets(made), read)
    choices = np.indices(table.shape)
    assert sets.taken(choices[0], list(choices[1:])) == pytest.approx(table)
    given: list[Seconds] = [numbers.random((size,)) for size in table.shape]
    for place, size in enumerate(table.shape):
        least = np.empty(size)
        sets.least(given, [None] * len(given), place, least)
        others = [one[choices[other]] for other, one in enumerate(given) if other != place]
        along = tuple(axis for axis in range(table.ndim) if axis != place)
        assert least == pytest.approx((table - sum(others)).min(axis=along))


def test_only_tables_that_are_small_and_soon_made_are_few() -> None:
    assert are_few(16, (1, 16, 16))
    assert are_few(18, (1, 16, 16, 16, 18))
    assert not are_few(10, (10,) * 6)  # too large
    assert not are_few(90, (1, 40, 40, 40))  # too long


def _told(seed: int) -> tuple[ChoiceGraph, Distances, list[Link]]:
    """A random program of which it is told of some values what all of their versions take."""
    graph = ready(small_program(seed))
    choices = choice_graph(graph, decide(graph), times_run(graph))
    distances = Distances(SCALED, choices)
    shared = [link for link in choices.links if link.is_shared]
    return choices, distances, [link for link in shared if distances.tells(choices, link, [link.value])]


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5])
def test_all_that_looks_at_a_value_takes_its_trees(seed: int) -> None:
    with sw.Session(hardware=SCALED):
        choices, distances, told = _told(seed)
        assert told
        rng = Random(seed)
        ways = [rng.randrange(len(node.seconds)) for node in choices.nodes]
        before, around = solution_of(choices, ways, distances, 0.0), Around(choices, ways, distances)
        number = {id(link): place for place, link in enumerate(choices.links)}
        for link in told:
            tree = distances.tree(choices, link, ways)
            assert tree is not None
            taken = sum([distances(link.type, *arc) for arc in tree.arcs])
            assert tree.seconds == pytest.approx(taken)
            assert before.links[number[id(link)]] == pytest.approx(taken)
            for node in {link.maker[0], *[node for node, _ in link.readers]}:
                others = around.seconds(node)
                for way, seconds in enumerate(others - others[ways[node]]):
                    after = solution_of(choices, [*ways[:node], way, *ways[node + 1 :]], distances, 0.0)
                    assert after.seconds - before.seconds == pytest.approx(seconds, rel=1e-6, abs=1e-15)
        bound = Messages(choices, 1.0).least(distances, 4)
        assert bound <= before.seconds * (1 + 1e-9)


def test_the_tree_of_a_choice_leads_to_all_that_read_a_value() -> None:
    assert sum(map(_trees_that_lead_to_several, range(8))) > 20


def _trees_that_lead_to_several(seed: int) -> int:
    """They take no more than leading to each by itself, and no less than what the dearest does by way of any layout."""
    with sw.Session(hardware=SCALED):
        graph = ready(small_program(seed))
        choices = choice_graph(graph, decide(graph), times_run(graph))
        distances, rng, several = Distances(SCALED, choices), Random(seed), 0
        for link in choices.links * 8:
            ways = [rng.randrange(len(node.seconds)) for node in choices.nodes]
            first, *others = dict.fromkeys(choices.layout(end, ways) for end in (link.maker, *link.readers))
            tree = distances.tree(choices, link, ways)
            assert tree is not None
            made = {first}
            for before, after in tree.arcs:
                assert before in made
                made.add(after)
            assert made.issuperset(others)
            arcs = [distances(link.type, *arc) for arc in tree.arcs]
            assert tree.seconds == pytest.approx(sum(arcs), abs=1e-15)
            assert tree.seconds <= sum([distances(link.type, first, other) for other in others]) * (1 + 1e-9)
            several += len(others) > 1
    return several


@pytest.mark.parametrize("name", ["convolutional_autoencoder", "multigrid"])
def test_what_several_read_is_proven_where_the_dearest_of_them_tells_too_little(name: str) -> None:
    """A value of three readers in many layouts, and several of four to six readers in few."""
    with sw.Session(hardware=TPU_V5P):
        graph = with_fewer_ops(ready(models()[f"nets.{name}"]()))
        _, searched = search(graph, "default")
    assert searched.gap is not None
    assert searched.gap < 1e-5
