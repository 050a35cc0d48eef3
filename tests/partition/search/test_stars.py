"""What links take is what the dearest of their readers does, whatever is chosen at all of their ends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.stars import star_of

SIZES = [
    (1, 1),
    (4, 1),
    (1, 4),
    (3, 4),
    (4, 1, 1),
    (1, 3, 1),
    (3, 4, 1),
    (1, 3, 4),
    (3, 2, 4),
    (2, 3, 1, 4),
    (1, 3, 2, 4),
    (3, 2, 4, 3),
    (30, 20, 20),
    (1, 30, 20, 20),
    (9, 9, 1, 9, 9),
]
"""Layouts of the maker and of each reader: few to choose together, or too many to be told one by one."""


def _seconds(rng: Random, sizes: Sequence[int]) -> list[Seconds]:
    """What each reader takes from each layout that is made; some the same."""
    made, *read = sizes
    return [np.array([[rng.choice((0.0, 0.5, rng.random())) for _ in range(one)] for _ in range(made)]) for one in read]


def _least(seconds: Sequence[Seconds], given: Sequence[Seconds], place: int) -> Seconds:
    """The same by all that the ends may choose together."""
    sizes = [one.size for one in given]
    taken = np.zeros(sizes)
    for reader, one in enumerate(seconds, 1):
        shape = [one.shape[0], *[size if other == reader else 1 for other, size in enumerate(sizes) if other]]
        taken = np.maximum(taken, one.reshape(shape))
    for other, one in enumerate(given):
        if other != place:
            taken = taken - one.reshape([-1 if end == other else 1 for end in range(len(sizes))])
    least: Seconds = taken.min(axis=tuple(end for end in range(len(sizes)) if end != place))
    return least


MANY = [(1,) * 100, (4,) + (1,) * 99, (3, 4) + (1,) * 99, (1, 3) + (1,) * 40 + (4,) + (1,) * 40]
"""The same of values that more ops read than arrays have dimensions."""


@pytest.mark.parametrize("sizes", MANY)
def test_readers_without_a_choice_may_be_as_many_as_there_are(sizes: tuple[int, ...]) -> None:
    rng = Random(str(sizes))
    seconds = _seconds(rng, sizes)
    wide = [place for place, size in enumerate(sizes) if place and size > 1]
    dearest = np.maximum.reduce([one for one in seconds if one.shape[1] == 1])
    given = [np.array([rng.random() if size > 1 else 0.0 for _ in range(size)]) for size in sizes]
    few = [dearest, *[seconds[place - 1] for place in wide]]
    among = [given[0], np.zeros(1), *[given[place] for place in wide]]
    star = star_of(seconds)
    for place, size in enumerate(sizes):
        found, end = np.empty(size), wide.index(place) + 2 if place in wide else min(place, 1)
        star.least(given, [None] * len(sizes), place, found)
        assert found == pytest.approx(_least(few, among, end))


@pytest.mark.parametrize("sizes", SIZES)
def test_what_a_link_takes_at_least_is_the_least_of_all_that_its_ends_choose(sizes: tuple[int, ...]) -> None:
    rng = Random(str(sizes))
    seconds = _seconds(rng, sizes)
    star = star_of(seconds)
    for _, place in itertools.product(range(3), range(len(sizes))):
        given = [np.array([rng.random() if size > 1 else 0.0 for _ in range(size)]) for size in sizes]
        parts: list[Seconds | None] = [None] * len(sizes)
        found = np.empty(sizes[place])
        for _ in range(2):  # by what was given, and by what is known of it then
            star.least(given, parts, place, found)
            assert found == pytest.approx(_least(seconds, given, place))
