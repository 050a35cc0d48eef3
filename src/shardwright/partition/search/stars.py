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

    def marginal(self, moved: Sequence[Seconds], place: int) -> Seconds:
        """The least that it takes, with the seconds moved to it, for each layout at one of its ends."""


class _Pair:
    """A value of one reader."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds = seconds

    def marginal(self, moved: Sequence[Seconds], place: int) -> Seconds:
        made, read = moved
        least: Seconds = (self.seconds + read).min(1) + made if place == 0 else (self.seconds.T + made).min(1) + read
        return least


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
        self.first: list[Numbers] = []  # the first limit that a layout is within
        for one, order in zip(seconds, self.orders, strict=True):
            sides = list(zip(np.take_along_axis(one, order, 1), self.limits, one, strict=True))
            within = np.array([np.searchsorted(taken, limits, "right") for taken, limits, _ in sides])
            self.within.append(within + np.arange(len(within))[:, None] * (one.shape[1] + 1))
            self.first.append(np.array([np.searchsorted(limits, taken, "left") for _, limits, taken in sides]))

    def marginal(self, moved: Sequence[Seconds], place: int) -> Seconds:
        made, *read = moved
        total: Seconds = self.limits + made[:, None]
        for reader, (seconds, order, within) in enumerate(zip(read, self.orders, self.within, strict=True), 1):
            if reader != place:
                least = np.full((len(order), order.shape[1] + 1), np.inf)
                np.minimum.accumulate(seconds[order], axis=1, out=least[:, 1:])
                total = total + least.ravel()[within]
        if place == 0:
            made_so: Seconds = total.min(1)
            return made_so
        beyond = np.minimum.accumulate(total[:, ::-1], axis=1)[:, ::-1]
        read_so: Seconds = np.take_along_axis(beyond, self.first[place - 1], 1).min(0) + read[place - 1]
        return read_so


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
