"""Choices made better node by node until none takes less otherwise, each once for what is known of distances."""

from __future__ import annotations

from shardwright.partition.search.around import Tables, improved
from shardwright.partition.search.chosen import Solution, solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph

__all__ = ["Rest"]


class Rest:
    """Choices in which no single node takes less otherwise, by what is known of distances, by those they come from."""

    def __init__(self, graph: ChoiceGraph, distances: Distances, least: float, before: Rest | None) -> None:
        """None yet.

        Arguments:
            graph: What there is to choose.
            distances: What redistributions take.
            least: Seconds below which a difference is none.
            before: The same made before, when less was known of distances.
        """
        self.graph = graph
        self.distances = distances
        self.changes = distances.changes
        self.least = least
        is_same = before is not None and before.distances is distances
        self.tables: Tables = before.tables if before is not None and is_same else Tables(graph, distances)
        self.tables.forget_trees()
        self.known: dict[tuple[int, ...], Solution] = {}

    def from_start(self, ways: tuple[int, ...]) -> Solution:
        """The one to which a choice comes; the bound is not that."""
        if ways not in self.known:
            at_rest = next(iter(self.known.values())).ways if self.known else None
            end = improved(self.graph, ways, self.distances, self.least, self.tables, at_rest)
            found = self.known.get(end) or solution_of(self.graph, end, self.distances, 0.0, self.tables)
            self.known[ways] = self.known[end] = found
        return self.known[ways]
