"""The optimum of a choice graph, most of whose ways are left out before it is looked for.

Messages say what choices with a way take at least. A choice is read off them; where some might take less, one is looked
for among few ways of each node. No way that is bound to take more than what is found need be looked at: of those that
are left, the optimum is that of all. Where that is too much to solve, what was found among few ways is taken, with the
bound of the messages.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.around import improved
from shardwright.partition.search.chosen import Solution, solution_of
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.integer import Limits, solve
from shardwright.partition.search.least import Distances
from shardwright.partition.search.messages import Messages

__all__ = ["Budget", "Reduced"]

_FIRST, _AGAIN = 6, 2
"""How many passes messages take, at first and after distances changed."""

_FEW = 2, 4, 8
"""How many ways of a node are looked at first, to know which others can be left out."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What bounds the time that a choice takes, the same for the same program wherever it is chosen; of the few integer
    programs that nothing here ends, seconds do: `highs.LONGEST`.

    Attributes:
        whole: Nodes that the choice graph may have for none to be chosen alike.
        nodes: Nodes that are told apart where it has more.
        each: What bounds an integer program.
        all: Entries that all of them may have together.
        rounds: How often it is chosen anew at most.
    """

    whole: int
    nodes: int
    each: Limits
    all: int
    rounds: int


class Reduced:
    """A choice graph, of which better and better bounds are known."""

    def __init__(self, graph: ChoiceGraph, most: float, budget: Budget) -> None:
        """Nothing known yet but that some choice takes `most` seconds."""
        self.graph = graph
        self.most = most
        self.messages = Messages(graph, 10 * most)
        self.passes = _FIRST
        self.each = budget.each
        self.left = budget.all
        self.found: list[tuple[int, ...]] = []

    def solve(self, distances: Distances, in_full: Collection[int]) -> Solution | None:
        """The choice that takes least, or one near it with a bound of what that takes.

        Arguments:
            distances: What redistributions take.
            in_full: Links of which every version is told.

        Returns:
            The choice; `None` where none was found.
        """
        bound, least = self.messages.least(distances, self.passes)
        self.passes = _AGAIN
        self.found.append(improved(self.graph, self.messages.chosen(), distances, 1e-9 * self.most))
        read_off = solution_of(self.graph, self.found[-1], distances, bound)
        if not in_full and read_off.seconds <= bound * (1 + self.each.gap):
            return read_off
        found: list[Solution] = []
        for kept in self.sets(bound, least):
            among = self.among(kept, distances, in_full)
            if among is None:
                continue
            found.append(among)
            best = min(found, key=attrgetter("seconds"))
            limit = best.seconds * (1 + 1e-9) + 1e-12 * self.most
            most = _kept(least, limit)
            if best is among and all(np.isin(one, other).all() for one, other in zip(most, kept, strict=True)):
                return best
            whole = self.among(most, distances, in_full)
            if whole is not None:  # with any way that was left out it takes more than the limit
                return replace(whole, bound=min(whole.bound, limit))
        if not found:  # in which values take what their dearest readers do, and more where they are told in full
            found = [solution_of(self.graph, ways, distances, bound) for ways in self.found]
        best = min(found, key=attrgetter("seconds"))
        return replace(best, bound=min(best.seconds, max(bound, 0.0))) if math.isfinite(best.seconds) else None

    def sets(self, bound: float, least: Sequence[Seconds]) -> Iterator[list[Numbers]]:
        """Ways among which one is chosen first, to know which others can be left out: those that may take least, and
        those that may take as little as the bound; with what was chosen before, which is not to be forgotten where
        other distances have changed.
        """
        for some in (*_few(least), _kept(least, bound + 1e-9 * self.most)):
            yield [np.union1d(ways, found) for ways, found in zip(some, np.array(self.found).T, strict=True)]

    def among(self, kept: Sequence[Numbers], distances: Distances, in_full: Collection[int]) -> Solution | None:
        """The best choice among some ways; `None` if they are too many."""
        limits = self.each._replace(entries=min(self.each.entries, self.left))
        found, size = solve(self.graph.restricted(kept), distances, in_full, self.most, limits)
        self.left -= size
        if found is None or found.seconds > 5 * self.most:
            return None
        ways = tuple([int(ways[way]) for ways, way in zip(kept, found.ways, strict=True)])
        self.found.append(ways)
        return replace(found, ways=ways)


def _kept(least: Sequence[Seconds], most: float) -> list[Numbers]:
    """Of each node the ways of choices that may take no more than that; one in any case."""
    return [np.flatnonzero(of_node <= max(most, float(of_node.min()))) for of_node in least]


def _few(least: Sequence[Seconds]) -> Iterator[list[Numbers]]:
    """Of each node the ways of choices that may take least."""
    for most in _FEW:
        yield [np.sort(np.argsort(of_node, kind="stable")[:most]) for of_node in least]
