"""What each way of a node takes, with all others as they are chosen, and choices in which no other way takes less.

Where a choice is known that is not proven to be the best, nodes that take less otherwise make it better, one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.branches import Branches, branches_of
from shardwright.partition.search.distances import Distances, Versions
from shardwright.partition.search.graph import ChoiceGraph, End
from shardwright.partition.search.stars import runs_at_least
from shardwright.sharding import TensorSharding

__all__ = ["Around", "Tables", "improved"]

_SWEEPS = 16
"""How often all nodes are looked at; mostly nothing is found after three."""


class Around:
    """A choice, and what it takes around each node; a value of several readers takes what its dearest reader does, and
    one that is read in several branches what `branches` tells.
    """

    def __init__(
        self, graph: ChoiceGraph, ways: Sequence[int], distances: Distances, tables: Tables | None = None
    ) -> None:
        """So it is chosen, which may be changed in `ways`; the tables are those of another choice of the graph."""
        self.graph = graph
        self.ways = list(ways)
        self.tables = Tables(graph, distances) if tables is None else tables

    def layout(self, end: End) -> TensorSharding:
        """How a value lies at an end."""
        return self.graph.layout(end, self.ways)

    def seconds(self, number: int) -> Seconds:
        """What each way of a node takes, with its links."""
        node = self.graph.nodes[number]
        taken = node.seconds.copy()
        for link in dict.fromkeys(slot.link for slot in node.slots):
            taken += self._of_link(link, number)
        return taken

    def beside(self, number: int) -> Iterator[int]:
        """The nodes at the links of a node."""
        for slot in self.graph.nodes[number].slots:
            link = self.graph.links[slot.link]
            yield from [node for node, _ in (link.maker, *link.readers) if node != number]

    def _of_link(self, link: int, number: int) -> Seconds:
        """What a link takes for each way of one of its nodes."""
        graph, ways = self.graph, self.ways
        ends, (of_readers, times, tables, branches, trees) = graph.links[link], self.tables[link]
        made = graph.slot(ends.maker)
        if not tables:
            return np.zeros(len(graph.nodes[number].seconds))
        if branches is not None or trees is not None:
            first, *read = [self._layouts(end, number) for end in (ends.maker, *ends.readers)]
            return times * self.tables[link].taken_by(first, read)
        if ends.maker[0] == number:
            of_made = np.zeros(len(made.layouts))
            for end, runs, table in zip(ends.readers, of_readers, tables, strict=True):
                slot = graph.slot(end)
                of_made = np.maximum(of_made, runs * table[:, slot.of_way[ways[end[0]]]])
            seconds: Seconds = (times * of_made)[made.of_way]
            return seconds
        row, least, mine = made.of_way[ways[ends.maker[0]]], 0.0, list[Seconds]()
        for end, runs, table in zip(ends.readers, of_readers, tables, strict=True):
            slot = graph.slot(end)
            if end[0] == number:
                mine.append(runs * table[row][slot.of_way])
            else:
                least = max(least, runs * table[row, slot.of_way[ways[end[0]]]])
        dearest: Seconds = np.maximum(mine[0] if len(mine) == 1 else np.maximum.reduce(mine), least)
        return times * dearest

    def _layouts(self, end: End, number: int) -> Numbers:
        """The layouts at an end, by number: for each way of one node, of any other node as it is chosen."""
        of_way = self.graph.slot(end).of_way
        return of_way if end[0] == number else of_way[self.ways[end[0]]]


class Table(NamedTuple):
    """What a link takes.

    Attributes:
        runs: For each reader how often a version for it is made at least.
        times: For how many values that are alike the link stands.
        readers: For each reader what bringing it from each layout to each takes, once.
        branches: Where it is read, if that is in several branches.
        trees: What all its versions take once, if that is told.
    """

    runs: list[float]
    times: int
    readers: list[Seconds]
    branches: Branches | None
    trees: Versions | None

    def taken_by(self, made: Numbers | int, read: Sequence[Numbers | int]) -> Seconds:
        """What one value takes that is read in several branches, or of which all versions are told."""
        if self.trees is not None:
            all_versions: Seconds = self.runs[0] * self.trees.taken(made, read)
            return all_versions
        assert self.branches is not None
        return self.branches.taken(
            [seconds[made, layouts] for seconds, layouts in zip(self.readers, read, strict=True)]
        )

    def taken(self, made: int, read: Sequence[int]) -> float:
        """What one value takes, by the numbers of the layouts in which it is made and read."""
        if self.trees is not None or self.branches is not None:
            return float(self.taken_by(made, read))
        once = [float(table[made, layout]) for table, layout in zip(self.readers, read, strict=True)]
        return max([runs * taken for runs, taken in zip(self.runs, once, strict=True)], default=0.0)


class Tables(dict[int, Table]):
    """What each link takes: the same arrays that `Distances` keeps up to date, but for those of trees."""

    def __init__(self, graph: ChoiceGraph, distances: Distances) -> None:
        """Of no link yet."""
        super().__init__()
        self.graph = graph
        self.distances = distances

    def __missing__(self, number: int) -> Table:
        graph, link = self.graph, self.graph.links[number]
        runs = runs_at_least(graph, link)
        tables, branches = self.distances.of_readers(graph, link), branches_of(graph, link, runs)
        found = self[number] = Table(runs, link.times, tables, branches, self.distances.of_trees(graph, link))
        return found

    def forget_trees(self) -> None:
        """More is known of distances, or of more values what all their versions take."""
        links, told = self.graph.links, self.distances.told
        for number in [number for number in self if links[number].value in told]:
            del self[number]


def improved(
    graph: ChoiceGraph,
    ways: Sequence[int],
    distances: Distances,
    least: float,
    tables: Tables | None = None,
    at_rest: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """A choice that takes no more, in which no single node would take less otherwise.

    Arguments:
        graph: What there is to choose.
        ways: Of every node, the number of the way.
        distances: What redistributions take.
        least: Seconds below which a difference is none.
        tables: Those of the graph, if it has some already.
        at_rest: A choice that was made better so by the same distances: only where this one is another can it be made
            better.
    """
    around = Around(graph, ways, distances, tables)
    several = [number for number, node in enumerate(graph.nodes) if len(node.seconds) > 1]
    has_choice = frozenset(several)
    stale = set(several)  # nodes that were not looked at since something around them changed
    if at_rest is not None:
        other = [number for number in several if ways[number] != at_rest[number]]
        stale = set(has_choice.intersection(itertools.chain(other, *map(around.beside, other))))
    for _ in range(_SWEEPS):
        for number in several:
            if number not in stale:
                continue
            stale.discard(number)
            seconds = around.seconds(number)
            best = int(np.argmin(seconds))
            if seconds[best] < seconds[around.ways[number]] - least:
                around.ways[number] = best
                stale.update(has_choice.intersection(around.beside(number)))
        several.reverse()
        if not stale:
            break
    return tuple(around.ways)
