"""What a value takes on its way from its maker to its readers at least, for every layout that each of them may choose.

A version that several readers want is made once, and with it others that lie on its way. So all readers together take
at least what the dearest does, each as often as a version for it must be made. Where they stand in several branches,
they take more than that together: `branches`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.branches import Branches, branches_of
from shardwright.partition.search.distances import Distances, Versions
from shardwright.partition.search.graph import ChoiceGraph, Link
from shardwright.partition.search.sets import Sets

__all__ = ["Apart", "Pair", "Shared", "Star", "Stars", "most_of_each", "runs_at_least", "star_of"]

_TOGETHER = 8_000
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
        self._rank(dict(zip(several, read, strict=True)), _each_once(np.concatenate(read or [floor], axis=1)))

    def _rank(self, read: Mapping[int, Seconds], limits: Seconds) -> None:
        """Put in order what readers with several layouts take, by their ends."""
        self.limits = limits
        self.orders = {place: np.argsort(one, axis=1, kind="stable") for place, one in read.items()}
        # how many layouts of a reader are within each limit: where the least of these is
        self.within: dict[int, Numbers] = {}
        # the first limit that a layout is within: where it is, from the last limit on
        self.first: dict[int, Numbers] = {}
        rows = np.arange(len(limits))[:, None]
        for place, one in read.items():
            within, first = _ranks(one, limits)
            self.within[place] = within + rows * (one.shape[1] + 1)
            self.first[place] = (rows + 1) * limits.shape[1] - 1 - first

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


class Apart(Shared):
    """A value that is read in several branches: it takes what its readers do together.

    For each layout that is made, the limits are all that a reader may take; each scope has one of its own, none below
    that of the one around it.
    """

    def __init__(self, seconds: Sequence[Seconds], branches: Branches) -> None:
        limits = _each_once(np.concatenate([np.zeros((len(seconds[0]), 1)), *seconds], axis=1))
        last = np.where(np.isfinite(limits), limits, 0.0).max(axis=1, keepdims=True)
        read = {place: one for place, one in enumerate(seconds, 1) if one.shape[1] > 1}
        self._rank(read, np.minimum(limits, last))
        self.branches = branches
        self.made = [runs * self.limits for runs in branches.runs]
        self.scopes = [0, *map(branches.of_reader, range(len(seconds)))]
        self.least_own = [np.zeros((1, 1))] * len(branches.runs)
        for place, one in enumerate(seconds, 1):
            if place not in read:
                self.least_own[self.scopes[place]] = self.least_own[self.scopes[place]] + self.only(one)

    def only(self, seconds: Seconds, row: int | None = None) -> Seconds:
        """What a reader takes within each limit who has one layout: it is impossible within those below."""
        limits = self.limits if row is None else self.limits[row : row + 1]
        return np.where(limits >= seconds, 0.0, np.inf)

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        """As `Star` has it."""
        for reader in self.orders:
            if reader != place and parts[reader] is None:
                parts[reader] = self.within_limits(reader, -given[reader])
        readers = {reader: part for reader in self.orders if reader != place and (part := parts[reader]) is not None}
        total = self.total(readers, place)
        if place == 0:
            np.minimum.reduce(total, axis=1, out=least)
        else:
            np.minimum.reduce(self.beyond(total, place) - given[0][:, None], axis=0, out=least)

    def total(self, parts: Mapping[int, Seconds], place: int, row: int | None = None) -> Seconds:
        """For each layout that is made, or that of one row, and each limit of the scope of an end what all take.

        Arguments:
            parts: What each other reader takes at least for itself within each limit.
            place: The end.
            row: The layout that is made, if it is chosen.
        """
        rows = slice(None) if row is None else slice(row, row + 1)
        own = [one if len(one) == 1 else one[rows] for one in self.least_own]
        for reader, part in parts.items():
            own[self.scopes[reader]] = own[self.scopes[reader]] + part
        return self.branches.within([one[rows] for one in self.made], own, self.scopes[place])


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
        runs = runs_at_least(self.graph, link)
        versions = self.distances.of_trees(self.graph, link)
        if versions is not None:
            once = id(versions), link.times * runs[0]
            if once not in self._now:
                self._now[once] = _of_versions(versions, link.times * runs[0], self.most)
            return self._now[once]
        maker, *readers = (self.graph.slot(end).layouts for end in (link.maker, *link.readers))
        branches = branches_of(self.graph, link, runs)
        key = link.type, id(maker), *map(id, readers), link.is_shared, branches, *[link.times * one for one in runs]
        if key not in self._now:
            self._now[key] = self._known(key, link, runs, branches)
        return self._now[key]

    def _known(self, key: object, link: Link, runs: Sequence[float], branches: Branches | None) -> Star:
        entered = self.distances.entered_of(self.graph, link)
        before, found = self._made.get(key, (-1, None))
        if found is None or entered != before:
            tables = self.distances.of_readers(self.graph, link)
            found = star_of(most_of_each(tables, link.times, runs, branches, self.most), branches)
            self._made[key] = entered, found
        return found


def most_of_each(
    tables: Sequence[Seconds], times: int, runs: Sequence[float], branches: Branches | None, most: float
) -> list[Seconds]:
    """What each reader takes, and no more than what is impossible does; where there are branches, as if it ran once.

    Arguments:
        tables: What bringing the value from each layout to each takes, once.
        times: How many values are alike.
        runs: For each reader how often a version that it wants is made at least.
        branches: Where it is read, if that is in several.
        most: What is impossible takes so many seconds.
    """
    if branches is None:
        return [np.minimum(times * one * table, most) for one, table in zip(runs, tables, strict=True)]
    return [np.minimum(times * table, most / one) for one, table in zip(runs, tables, strict=True)]


def star_of(seconds: Sequence[Seconds], branches: Branches | None = None) -> Star:
    """A star, by what each reader takes from each layout that is made; where it is read in several branches, once."""
    sizes = len(seconds[0]), *[one.shape[1] for one in seconds]
    several = sum(size > 1 for size in sizes)
    if len(sizes) > _DIMENSIONS or (several > 2 and math.prod(sizes) > _TOGETHER):
        return Shared(seconds) if branches is None else Apart(seconds, branches)
    shaped = []
    for reader, one in enumerate(seconds, 1):
        shape = [1] * len(sizes)
        shape[0], shape[reader] = one.shape
        shaped.append(one.reshape(shape))
    if branches is not None:
        together = branches.taken(shaped)
    else:
        together = np.zeros(sizes)
        for one in shaped:
            np.maximum(together, one, out=together)
    return _of_all(together)


def _of_versions(versions: Versions, times: float, most: float) -> Star:
    """A star of a value of which all versions are told, as often as that; what is impossible takes `most`."""
    if isinstance(versions, Sets):
        return versions.times(times, most)
    return _of_all(np.minimum(times * versions.table, most))


def _of_all(together: Seconds) -> Star:
    """A star told for all that its ends may choose together."""
    return Pair(together) if sum(size > 1 for size in together.shape) == 2 else _Few(together)
