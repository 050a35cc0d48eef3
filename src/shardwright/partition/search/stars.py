"""What a value takes on its way from its maker to its readers at least, for every layout that each of them may choose.

A version that several readers want is made once, and with it others that lie on its way. So all readers together take
at least what the dearest does, as often as a version of it must be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.graph import ChoiceGraph, Link
from shardwright.partition.search.least import Distances

__all__ = ["Star", "runs_at_least", "star"]


class Star(Protocol):
    """A value and its ends: the maker, and then the readers."""

    def part(self, place: int, moved: Seconds) -> Seconds:
        """What the seconds moved to it from one of its ends come to, wherever else it is asked what it takes."""

    def marginal(self, parts: Sequence[Seconds | None], place: int, moved: Seconds) -> Seconds:
        """The least that it takes, with the seconds moved to it, for each layout at one of its ends.

        Arguments:
            parts: The `part` of each end; that of the end itself is not looked at.
            place: Which end it is.
            moved: What was moved from there.
        """


class _Pair:
    """A value of one reader."""

    def __init__(self, seconds: Seconds) -> None:
        self.sides = np.ascontiguousarray(seconds.T), seconds

    def part(self, place: int, moved: Seconds) -> Seconds:
        least: Seconds = np.minimum.reduce(self.sides[place] + moved, axis=1)
        return least

    def marginal(self, parts: Sequence[Seconds | None], place: int, moved: Seconds) -> Seconds:
        other = parts[1 - place]
        assert other is not None
        return other + moved


class _Shared:
    """A value of several readers: it takes what the dearest of them does.

    For each layout that is made, the limits are all that a reader may take; within a limit a reader may choose among
    those layouts that take no more.
    """

    def __init__(self, seconds: Sequence[Seconds]) -> None:
        self.limits = np.sort(np.concatenate(seconds, axis=1), axis=1)
        self.orders = [np.argsort(one, axis=1, kind="stable") for one in seconds]
        self.within: list[
            Numbers
        ] = []  # how many layouts of a reader are within each limit: where the least of these is
        self.first: list[Numbers] = []  # the first limit that a layout is within: where it is, too
        rows = np.arange(len(self.limits))[:, None]
        for one in seconds:
            within, first = _ranks(one, self.limits)
            self.within.append(within + rows * (one.shape[1] + 1))
            self.first.append(first + rows * self.limits.shape[1])

    def part(self, place: int, moved: Seconds) -> Seconds:
        if place == 0:
            return self.limits + moved[:, None]
        order = self.orders[place - 1]
        least = np.empty((len(order), order.shape[1] + 1))
        least[:, 0] = np.inf
        np.minimum.accumulate(moved[order], axis=1, out=least[:, 1:])
        within: Seconds = least.ravel()[self.within[place - 1]]
        return within

    def marginal(self, parts: Sequence[Seconds | None], place: int, moved: Seconds) -> Seconds:
        made, *read = parts
        total = self.part(0, moved) if place == 0 else made
        assert total is not None
        for reader, part in enumerate(read, 1):
            if reader != place:
                assert part is not None
                total = total + part
        if place == 0:
            made_so: Seconds = np.minimum.reduce(total, axis=1)
            return made_so
        beyond = np.minimum.accumulate(total[:, ::-1], axis=1)[:, ::-1]
        read_so: Seconds = np.minimum.reduce(beyond.ravel()[self.first[place - 1]], axis=0)
        return read_so + moved


def _ranks(some: Seconds, limits: Seconds) -> tuple[Numbers, Numbers]:
    """Row by row, how many of some numbers are within each limit, and how many limits are below each of those numbers.

    The limits of a row are in order.
    """
    count = some.shape[1]
    order = np.argsort(np.concatenate([some, limits], axis=1), axis=1, kind="stable")  # numbers before equal limits
    is_limit = order >= count
    below = np.cumsum(is_limit, axis=1)
    within = (np.arange(1, order.shape[1] + 1) - below)[is_limit].reshape(limits.shape)
    first = np.empty(some.shape, dtype=np.intp)
    rows, places = np.nonzero(~is_limit)
    first[rows, order[rows, places]] = below[rows, places]
    return within, first


def runs_at_least(graph: ChoiceGraph, link: Link) -> float:
    """How often a version of a value is made at least that a reader wants: as often as the scope runs that does so
    least often of those in which it may be made; 0 if nobody reads it.
    """
    scopes = dict.fromkeys(graph.slot(end).scope for end in link.readers)
    return min([graph.scopes[one].runs for scope in scopes for one in graph.around(link, scope)], default=0.0)


def star(graph: ChoiceGraph, link: Link, distances: Distances, most: float, made: dict[object, Star]) -> Star | None:
    """What the value of a link takes; `None` if nobody reads it.

    Arguments:
        graph: Whose link it is.
        link: The value.
        distances: What redistributions take.
        most: What is impossible takes so many seconds.
        made: The stars made by now: of those one that is the same is taken.
    """
    if not link.readers:
        return None
    maker, *readers = (graph.slot(end).layouts for end in (link.maker, *link.readers))
    runs = link.times * runs_at_least(graph, link)
    key = link.type, maker, tuple(readers), runs
    if key not in made:
        seconds = [np.minimum(runs * distances.between(link.type, maker, read), most) for read in readers]
        made[key] = _Pair(seconds[0]) if len(seconds) == 1 else _Shared(seconds)
    return made[key]
