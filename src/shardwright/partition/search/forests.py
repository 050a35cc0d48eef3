"""Choices made better by forests: nodes among which no links run round are chosen all at once, exactly.

Of the choice graph nodes are taken, in an order drawn by lot, that make no circle with those taken before. With all
others as they are, what is taken is a forest, of which the best choice is told by dynamic programming: from the leaves
on each node tells what the part behind it takes at least for each of its ways. Other nodes are taken from sweep to
sweep. Each way of a node takes a little more by lot, and less of that from sweep to sweep, so that a choice that no
single forest makes better is left while it is early.

A value of several readers takes what the dearest of them does, and one that is read in several branches what `branches`
tells.

Source: Hamze and de Freitas, "From Fields to Trees" (2004), which samples so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import numpy as np

from shardwright.memo import once
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.branches import Branches, branches_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph, Link
from shardwright.partition.search.groups import Groups
from shardwright.partition.search.stars import Apart, Shared, most_of_each, runs_at_least

__all__ = ["Forests"]

_CALM = 0.25
"""Which part of the sweeps, the last ones, has no lots."""

_LOT = 2.0
"""How much more a way takes at first by lot at most, of what a node takes in the mean."""

_FREE = -1
"""The way of a node that is being chosen."""


class _Reader:
    """All that one node reads of a value: ways of the same layouts are one *column*."""

    def __init__(self, taken: Sequence[Seconds], of_way: Sequence[Numbers]) -> None:
        """For each time that it reads the value, what each layout takes from each that is made, and which a way has."""
        _, first, self.column = np.unique(np.stack(of_way), axis=1, return_index=True, return_inverse=True)
        self.ways = Groups(self.column.ravel())
        self.column = self.ways.of_way
        self.seconds: Seconds = np.maximum.reduce(
            [one[:, numbers[first]] for one, numbers in zip(taken, of_way, strict=True)]
        )


class _Value:
    """What a link takes, by what is chosen at its ends."""

    def __init__(self, graph: ChoiceGraph, link: Link, tables: Sequence[Seconds]) -> None:
        """By what each reader takes from each layout that is made."""
        maker = graph.slot(link.maker)
        self.maker = link.maker[0]
        self.made = Groups(maker.of_way)
        slots: dict[int, list[tuple[Seconds, Numbers]]] = {}
        for end, taken in zip(link.readers, tables, strict=True):
            slots.setdefault(end[0], []).append((taken, graph.slot(end).of_way))
        self.readers = {node: _Reader(*zip(*read, strict=True)) for node, read in slots.items()}
        self.nodes = tuple(dict.fromkeys((self.maker, *self.readers)))
        self.is_alone = self.maker in self.readers
        """Whether no other node is chosen while one at this link is: who makes it reads it, too."""

    @once
    def shared(self) -> Shared:
        """The star of more than two nodes."""
        return Shared([reader.seconds for reader in self.readers.values()])

    def seconds(self, ways: Sequence[int]) -> float:
        """What it takes."""
        made = self.made.of_way[ways[self.maker]]
        return max([float(r.seconds[made, r.column[ways[node]]]) for node, r in self.readers.items()], default=0.0)

    def least(self, ways: Sequence[int], energies: Mapping[int, Seconds], node: int) -> Seconds:
        """What it takes at least for each way of a node that is being chosen.

        Arguments:
            ways: What is chosen at other ends, or that it is `_FREE`.
            energies: What those nodes take for each way that are free.
            node: Which it is that is asked for.
        """
        if self.is_alone:
            return self._by_itself(ways, node)
        if len(self.nodes) == 2:
            return self._of_pair(ways, energies, node)
        row = None if ways[self.maker] == _FREE else int(self.made.of_way[ways[self.maker]])
        total = self._together(row, ways, energies, node)
        if node == self.maker:
            return self.made.spread(np.minimum.reduce(total, axis=1))
        seconds = self.shared.beyond(total, 1 + list(self.readers).index(node), row)
        if row is None:
            seconds = seconds + self.made.least(energies[self.maker])[:, None]
        return self.readers[node].ways.spread(np.minimum.reduce(seconds, axis=0))

    def _together(self, row: int | None, ways: Sequence[int], energies: Mapping[int, Seconds], node: int) -> Seconds:
        """For each layout that is made, or that of the row, and each limit what it takes within that, and readers that
        are free: all but the node.
        """
        rows = slice(None) if row is None else slice(row, row + 1)
        total, free = self.shared.limits[rows], list[Seconds]()
        for place, (other, reader) in enumerate(self.readers.items(), 1):
            if other == node:
                continue
            if ways[other] == _FREE:
                free.append(self.shared.within_limits(place, reader.ways.least(energies[other]), row))
            else:
                total = np.maximum(total, reader.seconds[rows, reader.column[ways[other]], None])
        for seconds in free:
            total = total + seconds
        return total

    def _of_pair(self, ways: Sequence[int], energies: Mapping[int, Seconds], node: int) -> Seconds:
        """The same of a link of two nodes."""
        _, other = self.nodes
        reader = self.readers[other]
        if node == self.maker:
            if ways[other] != _FREE:
                read: Seconds = reader.seconds[:, reader.column[ways[other]]]
            else:
                read = np.minimum.reduce(reader.seconds + reader.ways.least(energies[other]), axis=1)
            return self.made.spread(read)
        if ways[self.maker] != _FREE:
            made: Seconds = reader.seconds[self.made.of_way[ways[self.maker]]]
        else:
            made = np.minimum.reduce(reader.seconds + self.made.least(energies[self.maker])[:, None], axis=0)
        return reader.ways.spread(made)

    def _by_itself(self, ways: Sequence[int], node: int) -> Seconds:
        """What it takes for each way of its only node that is free."""
        if node == self.maker:
            made = self.made.of_way
            total = np.zeros(made.size)
            for other, reader in self.readers.items():
                column = reader.column if other == node else reader.column[ways[other]]
                total = np.maximum(total, reader.seconds[made, column])
            return total
        made = self.made.of_way[ways[self.maker]]
        rest = [float(r.seconds[made, r.column[ways[o]]]) for o, r in self.readers.items() if o != node]
        mine = self.readers[node]
        seconds: Seconds = np.maximum(mine.seconds[made], max(rest, default=0.0))[mine.column]
        return seconds


class _InBranches(_Value):
    """A value that is read in several branches."""

    def __init__(self, graph: ChoiceGraph, link: Link, tables: Sequence[Seconds], branches: Branches) -> None:
        """By what each reader takes, once, from each layout that is made."""
        super().__init__(graph, link, tables)
        slots: dict[tuple[int, int], list[tuple[Seconds, Numbers]]] = {}
        for number, (end, taken) in enumerate(zip(link.readers, tables, strict=True)):
            slots.setdefault((branches.of_reader(number), end[0]), []).append((taken, graph.slot(end).of_way))
        self.each = [(node, _Reader(*zip(*read, strict=True))) for (_, node), read in slots.items()]
        self.is_alone |= len(self.each) > len(self.readers)
        scopes = [scope for scope, _ in slots]
        of_each = [tuple([i for i, scope in enumerate(scopes) if scope == one]) for one in range(len(branches.runs))]
        self.branches = branches._replace(readers=tuple(of_each))

    @once
    def shared(self) -> Apart:
        """As of other values: where each node reads it in one scope."""
        return Apart([reader.seconds for reader in self.readers.values()], self.branches)

    def seconds(self, ways: Sequence[int]) -> float:
        """What it takes."""
        made = self.made.of_way[ways[self.maker]]
        return float(self.branches.taken([r.seconds[made, r.column[ways[node]]] for node, r in self.each]))

    def _together(self, row: int | None, ways: Sequence[int], energies: Mapping[int, Seconds], node: int) -> Seconds:
        rows = slice(None) if row is None else slice(row, row + 1)
        parts, place = dict[int, Seconds](), 0
        for number, (other, reader) in enumerate(self.readers.items(), 1):
            if other == node:
                place = number
            elif ways[other] == _FREE:
                parts[number] = self.shared.within_limits(number, reader.ways.least(energies[other]), row)
            else:
                parts[number] = self.shared.only(reader.seconds[rows, reader.column[ways[other]], None], row)
        return self.shared.total(parts, place, row)

    def _by_itself(self, ways: Sequence[int], node: int) -> Seconds:
        made = self.made.of_way if node == self.maker else self.made.of_way[ways[self.maker]]
        each = [(r, r.column if other == node else r.column[ways[other]]) for other, r in self.each]
        return self.branches.taken([reader.seconds[made, column] for reader, column in each])


def _value(graph: ChoiceGraph, link: Link, distances: Distances, most: float) -> _Value:
    """What a link takes."""
    runs = runs_at_least(graph, link)
    branches, tables = branches_of(graph, link, runs), distances.of_readers(graph, link)
    seconds = most_of_each(tables, link.times, runs, branches, most)
    return _Value(graph, link, seconds) if branches is None else _InBranches(graph, link, seconds, branches)


class Forests:
    """A choice graph whose choices are made better."""

    def __init__(self, graph: ChoiceGraph, distances: Distances, most: float, before: Forests | None = None) -> None:
        """Nothing chosen yet.

        Arguments:
            graph: What there is to choose.
            distances: What redistributions take.
            most: What is impossible takes so many seconds.
            before: The same made before, when less was known of distances.
        """
        self.graph = graph
        self.own = [node.seconds for node in graph.nodes]
        self.several = [number for number, node in enumerate(graph.nodes) if len(node.seconds) > 1]
        read = [link for link in graph.links if link.readers]
        self.known = [distances.changed(link.type) for link in read]
        self.values: list[_Value] = [
            before.values[number]
            if before is not None and before.known[number] == known
            else _value(graph, link, distances, most)
            for number, (link, known) in enumerate(zip(read, self.known, strict=True))
        ]
        self.values_of: list[list[int]] = [[] for _ in graph.nodes]
        for number, value in enumerate(self.values):
            for node in value.nodes:
                self.values_of[node].append(number)
        self.alone_of = [[number for number in of_node if self.values[number].is_alone] for of_node in self.values_of]

    def seconds(self, ways: Sequence[int]) -> float:
        """What a choice takes."""
        own = sum(float(seconds[way]) for seconds, way in zip(self.own, ways, strict=True))
        return own + sum(value.seconds(ways) for value in self.values)

    def improved(self, ways: Sequence[int], sweeps: int, lot: float = _LOT) -> tuple[int, ...]:
        """A choice that takes no more than this one."""
        rng = Random(len(self.several))
        best, least, now = tuple(ways), self.seconds(ways), list(ways)
        scale = lot * least / max(1, len(self.several))
        for sweep in range(sweeps):
            fading = max(0.0, 1 - sweep / (sweeps * (1 - _CALM)))
            now = self.swept(now, rng, scale * fading**2)
            seconds = self.seconds(now)
            if seconds < least:
                best, least = tuple(now), seconds
        return best

    def swept(self, ways: Sequence[int], rng: Random, lot: float) -> list[int]:
        """A choice in which a forest is chosen anew; each way takes at most so much more by lot."""
        now = list(ways)
        free = list(self.forest(rng))
        energies: dict[int, Seconds] = {}
        for node in free:
            now[node] = _FREE
            energies[node] = self.own[node]
            if lot:
                energies[node] = self.own[node] + np.array([rng.random() * lot for _ in self.own[node]])
        seen = set[int]()
        for root in free:
            if root not in seen:
                self.tree(root, now, energies, seen)
        return now

    def tree(self, root: int, now: list[int], energies: dict[int, Seconds], seen: set[int]) -> None:
        """Choose the nodes of a tree."""
        order: list[tuple[int, int]] = [(root, -1)]
        seen.add(root)
        for node, above in order:  # which grows
            for number in self.values_of[node]:
                if number != above:
                    for other in self.values[number].nodes:
                        if now[other] == _FREE and other not in seen:
                            seen.add(other)
                            order.append((other, number))
        for node, above in reversed(order):
            for number in self.values_of[node]:
                if number != above:
                    energies[node] = energies[node] + self.values[number].least(now, energies, node)
        for node, above in order:
            energy = energies[node]
            if above >= 0:
                energy = energy + self.values[above].least(now, energies, node)
            now[node] = int(np.argmin(energy))

    def forest(self, rng: Random) -> Iterator[int]:
        """Nodes among which no links run round."""
        order = list(self.several)
        rng.shuffle(order)
        above = list(range(len(self.values)))
        taken = [0] * len(self.values)

        def top(number: int) -> int:
            while above[number] != number:
                above[number] = number = above[above[number]]
            return number

        for node in order:
            if any(map(taken.__getitem__, self.alone_of[node])):
                continue
            tops = [top(number) for number in self.values_of[node]]
            if len(set(tops)) == len(tops):
                yield node
                for number in self.values_of[node]:
                    taken[number] = 1
                for one in tops:
                    above[one] = tops[0]
