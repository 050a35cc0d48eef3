"""What a value takes at least that is read in several branches: the dearest reader of each tells little of all.

A version that one branch has made no other one has. Two branches of which each runs half as often as what is around
them take, together, half of what each of their dearest readers does, unless what both want is made in front of them.

So for every scope it is told how far versions reach that are made in it or around it. Of a version as far as a reader
wants, each part is made as often as a scope around the reader runs; parts that readers in several scopes want may be
made in one around all of these. The cheapest of all that may be is a bound, and told from the inside out. It is what
the dearest reader takes where no scope has two others in it, and what `integer` takes for what a value does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph, Link, scopes_around

__all__ = ["Branches", "branches_of"]


class Branches(NamedTuple):
    """The scopes in which versions of a value may be made, without those in which they are no cheaper than around.

    Attributes:
        runs: How often each runs, the one first in which the value is made, and each behind the one around it.
        around: For each the one around it, by number; none around the first.
        readers: For each the numbers of the readers that stand in it.
    """

    runs: tuple[float, ...]
    around: tuple[int, ...]
    readers: tuple[tuple[int, ...], ...]

    def of_reader(self, reader: int) -> int:
        """The scope of a reader."""
        return next(scope for scope, readers in enumerate(self.readers) if reader in readers)

    def taken(self, seconds: Sequence[Seconds | float]) -> Seconds:
        """What the value takes, by how long a version takes for each of its readers when it is made once: of arrays
        whose shapes fit each other, one by one.
        """
        scopes = [scope for scope, readers in enumerate(self.readers) if readers]
        each = [functools.reduce(np.maximum, map(seconds.__getitem__, self.readers[scope])) for scope in scopes]
        dearest = np.empty((len(each), *np.broadcast_shapes(*map(np.shape, each))))
        for place, one in enumerate(each):
            dearest[place] = one
        limits = np.sort(dearest, axis=0)
        steps = limits.copy()  # from each to the next: that of infinite ones is none
        steps[1:] = np.subtract(limits[1:], limits[:-1], out=np.zeros_like(limits[1:]), where=limits[1:] > limits[:-1])
        total: Seconds = (steps * self._runs_of(dict(zip(scopes, dearest, strict=True)), limits)).sum(axis=0)
        return total

    def _runs_of(self, dearest: dict[int, Seconds], limits: Seconds) -> Seconds:
        """How often versions beyond each limit are made at least, all together."""
        inside = [np.zeros(1)] * len(self.runs)
        for scope in reversed(range(len(self.runs))):
            runs = np.minimum(inside[scope], self.runs[scope])
            inside[scope] = np.where(dearest[scope] >= limits, self.runs[scope], runs) if scope in dearest else runs
            if scope:
                inside[self.around[scope]] = inside[self.around[scope]] + inside[scope]
        return inside[0]

    def within(self, made: Sequence[Seconds], own: Sequence[Seconds], scope: int) -> Seconds:
        """What the value and its readers take at least if versions that are made in a scope, or around it, reach each
        of some limits.

        Arguments:
            made: For each scope what versions up to the limits take that are made in it, for each layout in which the
                value is made; limits are in order, and the same of all scopes.
            own: For each scope what its readers take at least for themselves within each limit.
            scope: The scope.
        """
        path = [scope]
        while path[-1]:
            path.append(self.around[path[-1]])
        inside = list(own)
        for one in range(len(inside) - 1, 0, -1):
            if one not in path:
                least = np.minimum.accumulate((made[one] + inside[one])[:, ::-1], axis=1)[:, ::-1] - made[one]
                inside[self.around[one]] = inside[self.around[one]] + least
        total: Seconds = made[0] + inside[0]
        for one in path[-2::-1]:
            total = np.minimum.accumulate(total - made[one], axis=1) + made[one] + inside[one]
        return total


def branches_of(graph: ChoiceGraph, link: Link, runs: Sequence[float]) -> Branches | None:
    """Where a value is read that is read in several branches; `None` where it takes what its dearest reader does.

    Arguments:
        graph: The choice graph.
        link: The value.
        runs: For each reader how often a version that it wants is made at least.
    """
    first = graph.slot(link.maker).scope
    if min(runs, default=0.0) >= graph.scopes[first].runs or len(runs) < 2:
        return None
    number, around, readers = {first: 0}, [0], list[list[int]]([[]])
    for reader, end in enumerate(link.readers):
        outer = first
        for scope in scopes_around(graph.scopes, graph.slot(end).scope, first)[-2::-1]:
            if graph.scopes[scope].runs < graph.scopes[outer].runs:
                if scope not in number:
                    number[scope] = len(number)
                    around.append(number[outer])
                    readers.append([])
                outer = scope
        readers[number[outer]].append(reader)
    if around[1:] == list(range(len(around) - 1)):  # none beside another
        return None
    return Branches(tuple([graph.scopes[scope].runs for scope in number]), tuple(around), tuple(map(tuple, readers)))
