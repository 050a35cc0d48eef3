"""The optimum of a choice graph, most of whose ways are left out before it is looked for.

Messages say what choices with a way take at least. Among ways that may belong to a choice near the bound one is chosen;
no way that is bound to take more than that need be looked at. Of what is left, the optimum is that of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from shardwright.partition.search.graph import ChoiceGraph, Numbers, Seconds
from shardwright.partition.search.integer import Solution, solve
from shardwright.partition.search.least import Distances
from shardwright.partition.search.messages import Messages

__all__ = ["Reduced"]

_FIRST, _AGAIN = 8, 3
"""How many passes messages take, at first and after distances changed."""

LARGEST = 130_000
"""Variables that an integer program may have."""

ALL = 400_000
"""Variables that all of them may have together: what bounds the time that large programs take."""

_FEW = (8, 6, 4)
"""How many ways of a node are looked at where those are too many."""

_NEAR = (0.0, 0.01, 0.1)
"""How much more than the bound ways may take that are looked at first, as a part of it."""


class Reduced:
    """A choice graph, of which better and better bounds are known."""

    def __init__(self, graph: ChoiceGraph, most: float) -> None:
        """Nothing known yet but that some choice takes `most` seconds."""
        self.graph = graph
        self.most = most
        self.messages = Messages(graph, 10 * most)
        self.passes = _FIRST
        self.left = ALL

    def solve(self, distances: Distances, in_full: Collection[int]) -> Solution | None:
        """The choice that takes least, or one near it with a bound of what that takes.

        Arguments:
            distances: What redistributions take.
            in_full: Links of which every version is told.

        Returns:
            The choice; `None` where the program is too large.
        """
        bound, least = self.messages.least(distances, self.passes)
        self.passes = _AGAIN
        found: Solution | None = None
        for kept in (*[_kept(least, bound + near * abs(bound) + 1e-9 * self.most) for near in _NEAR], *_few(least)):
            found = self.among(kept, distances, in_full)
            if found is not None:
                break
        if found is None:
            return None
        kept, left = _kept(least, found.seconds * (1 + 1e-9) + 1e-12 * self.most), kept
        if all(one.size == other.size for one, other in zip(kept, left, strict=True)):
            return found
        whole = self.among(kept, distances, in_full)
        return whole or replace(found, bound=min(found.seconds, max(bound, 0.0)))

    def among(self, kept: Sequence[Numbers], distances: Distances, in_full: Collection[int]) -> Solution | None:
        """The best choice among some ways."""
        largest = min(LARGEST, self.left)
        found, size = solve(self.graph.restricted(kept), distances, in_full, self.most, largest)
        self.left -= size if size <= largest else 0
        if found is None or found.seconds > 5 * self.most:
            return None
        ways = [int(ways[way]) for ways, way in zip(kept, found.ways, strict=True)]
        return replace(found, ways=tuple(ways))


def _kept(least: Sequence[Seconds], most: float) -> list[Numbers]:
    """Of each node the ways of choices that may take no more than that; one in any case."""
    return [np.flatnonzero(of_node <= max(most, float(of_node.min()))) for of_node in least]


def _few(least: Sequence[Seconds]) -> Iterator[list[Numbers]]:
    """Of each node the ways of choices that may take least."""
    for most in _FEW:
        yield [np.sort(np.argsort(of_node, kind="stable")[:most]) for of_node in least]
