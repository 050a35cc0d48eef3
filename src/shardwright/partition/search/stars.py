"""What a value takes on its way from its maker to its readers at least, for every layout that each of them may choose.

A version that several readers want is made once, and with it others that lie on its way. So all readers together take
at least what the dearest does, each as often as a version for it must be made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph, Link

__all__ = ["Pair", "Shared", "Star", "Stars", "runs_at_least", "star_of"]

_TOGETHER = 2_000
"""What several ends may choose together is told one by one if it is no more than that."""


_DIMENSIONS = 32
"""How many dimensions every numpy has for an array: a value that more ops read is told by what the dearest takes."""


class Star(Protocol):
    """A value and its ends: the maker, and then the readers."""

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        """Enter what it takes at least for each layout at one of its ends.

        Arguments:
            given: What it has given for each layout at each end; that of the end itself is not looked at.
            parts: What is known by now of what was given at each end, which may be entered; that of ends where it is
                not what it was is to be `None`.
            place: Which end it is.
            least: Where to enter it.
        """


class _Few:
    """A value that has several layouts at few ends: told for all that these may choose together."""

    def __init__(self, seconds: Seconds) -> None:
        """What it takes, with a dimension for each end."""
        self.sizes = seconds.shape
        several = [place for place, size in enumerate(seconds.shape) if size > 1]
        self.others = [[one for one in several if one != place] for place in range(seconds.ndim)]
        self.sides = [
            np.ascontiguousarray(np.moveaxis(seconds, place, 0).reshape(size, -1))
            for place, size in enumerate(seconds.shape)
        ]

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        together = np.zeros(1)
        for other in self.others[place]:
            together = (together[:, None] + given[other]).ravel()
        np.minimum.reduce(self.sides[place] - together, axis=1, out=least)


class Pair(_Few):
    """A value that has several layouts at two ends."""

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        """As `Star` has it."""
        if len(self.others[place]) > 1:
            super().least(given, parts, place, least)
            return
        (other,) = self.others[place]
        np.minimum.reduce(self.sides[other] - given[other][:, None], axis=0, out=least)


class Shared:
    """A value of several readers: it takes what the dearest of them does.

    For each layout that is made, the limits are all that a reader may take, and no less than those do who have one
    layout; within a limit a reader may choose among those layouts that take no more.
    """

    def __init__(self, seconds: Sequence[Seconds]) -> None:
        several = [place for place, one in enumerate(seconds, 1) if one.shape[1] > 1]
        floor = np.maximum.reduce([one for one in seconds if one.shape[1] == 1] or [np.zeros((len(seconds[0]), 1))])
        read = [np.maximum(seconds[place - 1], floor) for place in several]
        self.limits = _each_once(np.concatenate(read or [floor], axis=1))
        self.orders = {place: np.argsort(one, axis=1, kind="stable") for place, one in zip(several, read, strict=True)}
        # how many layouts of a reader are within each limit: where the least of these is
        self.within: dict[int, Numbers] = {}
        # the first limit that a layout is within: where it is, from the last limit on
        self.first: dict[int, Numbers] = {}
        rows = np.arange(len(self.limits))[:, None]
        for place, one in zip(several, read, strict=True):
            within, first = _ranks(one, self.limits)
            self.within[place] = within + rows * (one.shape[1] + 1)
            self.first[place] = (rows + 1) * self.limits.shape[1] - 1 - first

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        """As `Star` has it."""
        total = self.limits
        if place:
            made = parts[0]
            total = parts[0] = self.limits - given[0][:, None] if made is None else made
        for reader in self.orders:
            if reader != place:
                part = parts[reader]
                if part is None:
                    part = parts[reader] = self.within_limits(reader, -given[reader])
                total = total + part
        if place == 0:
            np.minimum.reduce(total, axis=1, out=least)
        else:
            np.minimum.reduce(self.beyond(total, place), axis=0, out=least)

    def within_limits(self, place: int, energy: Seconds, row: int | None = None) -> Seconds:
        """For each layout that is made, or that of one row, and each limit what a reader takes at least within it.

        Arguments:
            place: Which reader.
            energy: What it takes by itself for each of its layouts.
            row: The layout that is made, if it is chosen.
        """
        if place not in self.orders:
            return energy[:, None]
        order, within = self.orders[place], self.within[place]
        if row is not None:
            order, within = order[row : row + 1], within[row : row + 1] - row * (order.shape[1] + 1)
        least = np.empty((len(order), order.shape[1] + 1))
        least[:, 0] = np.inf
        np.minimum.accumulate(energy.take(order), axis=1, out=least[:, 1:])
        found: Seconds = least.ravel().take(within)
        return found

    def beyond(self, total: Seconds, place: int, row: int | None = None) -> Seconds:
        """For each layout that is made, or that of one row, and each layout of a reader the least of what is taken
        within the limits that are not below what the reader takes.
        """
        if place not in self.orders:
            least: Seconds = np.minimum.reduce(total, axis=1, keepdims=True)
            return least
        first = self.first[place]
        if row is not None:
            first = first[row : row + 1] - row * total.shape[1]
        beyond: Seconds = np.minimum.accumulate(total[:, ::-1], axis=1).ravel().take(first)
        return beyond


def _each_once(seconds: Seconds) -> Seconds:
    """The numbers of each row in order, each once: infinite ones behind those of rows that have fewer."""
    ordered = np.sort(seconds, axis=1)
    is_first = np.ones(ordered.shape, dtype=bool)
    is_first[:, 1:] = ordered[:, 1:] > ordered[:, :-1]
    places = np.cumsum(is_first, axis=1) - 1
    once = np.full((len(ordered), int(places.max()) + 1), np.inf)
    np.put_along_axis(once, places, ordered, axis=1)
    return once


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


def runs_at_least(graph: ChoiceGraph, link: Link) -> list[float]:
    """For each reader of a value how often a version that it wants is made at least: as often as the scope runs that
    does so least often of those in which it may be made.
    """
    scopes = [graph.slot(end).scope for end in link.readers]
    least = {
        scope: min([graph.scopes[one].runs for one in graph.around(link, scope)]) for scope in dict.fromkeys(scopes)
    }
    return list(map(least.__getitem__, scopes))


class Stars:
    """The stars of a graph, those that are the same made once."""

    def __init__(self, graph: ChoiceGraph, distances: Distances, most: float) -> None:
        """None made yet.

        Arguments:
            graph: Whose links they are of.
            distances: What redistributions take.
            most: What is impossible takes so many seconds.
        """
        self.graph = graph
        self.distances = distances
        self.most = most
        self._made: dict[object, tuple[int, Star]] = {}  # with how often more had become known of what it takes
        self._now: dict[object, Star] = {}  # those asked for since anything did
        self._changes = distances.changes

    def of(self, link: Link) -> Star | None:
        """What the value of a link takes; `None` if nobody reads it."""
        if not link.readers:
            return None
        if self._changes != self.distances.changes:
            self._changes, self._now = self.distances.changes, {}
        maker, *readers = (self.graph.slot(end).layouts for end in (link.maker, *link.readers))
        runs = [link.times * one for one in runs_at_least(self.graph, link)]
        key = link.type, id(maker), *map(id, readers), link.is_shared, *runs
        if key not in self._now:
            self._now[key] = self._known(key, link, runs)
        return self._now[key]

    def _known(self, key: object, link: Link, runs: Sequence[float]) -> Star:
        entered = self.distances.entered_of(self.graph, link)
        before, found = self._made.get(key, (-1, None))
        if found is None or entered != before:
            of_readers = zip(runs, self.distances.of_readers(self.graph, link), strict=True)
            found = star_of([np.minimum(one * seconds, self.most) for one, seconds in of_readers])
            self._made[key] = entered, found
        return found


def star_of(seconds: Sequence[Seconds]) -> Star:
    """A star, by what each reader takes from each layout that is made."""
    sizes = len(seconds[0]), *[one.shape[1] for one in seconds]
    several = sum(size > 1 for size in sizes)
    if len(sizes) > _DIMENSIONS or (several > 2 and math.prod(sizes) > _TOGETHER):
        return Shared(seconds)
    together = np.zeros(sizes)
    for reader, one in enumerate(seconds, 1):
        shape = [1] * len(sizes)
        shape[0], shape[reader] = one.shape
        np.maximum(together, one.reshape(shape), out=together)
    return Pair(together) if several == 2 else _Few(together)
