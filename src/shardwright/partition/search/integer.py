"""The choice graph as an integer program: which way every node takes so that all takes least.

Every way of every node is a variable, 1 or 0. What a value of one reader takes is said by the pairs of layouts in which
it is made and read. A value of several readers takes at least what the dearest does; what is made in a region is made
as often as that runs, and what is made in front of it is there for all of its runs. Where values take more than that,
since several versions are made, they are told in full: each is made, by an arc, of another one that is there.

It is mostly solved to the proven optimum, and twice to the same one (`highs`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.chosen import Solution
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import ChoiceGraph, End, Link
from shardwright.partition.search.stars import runs_at_least
from shardwright.sharding import TensorSharding

__all__ = ["Limits", "Taken", "solve"]

_USED = 1e-6
"""What part of an arc is none."""

_IMPOSSIBLE = 10.0
"""As many times as long as all takes."""


class Limits(NamedTuple):
    """What bounds the time that an integer program takes.

    Attributes:
        entries: How many numbers its rows may have; with more it is not solved.
        gap: How far what is chosen may be from what is proven, relatively.
        work: Entries that it may have in all parts into which it is divided to prove what is best; most need not be.
        relaxes: Whether its linear relaxation is solved first: mostly that is whole where a choice is known that is
            nearly the best. Where there is nothing to choose but versions of values it is all there is.
        known: Seconds that some choice is known to take: none is looked for that takes more.
    """

    entries: int
    gap: float
    work: int
    relaxes: bool = False
    known: float = math.inf


class Taken(NamedTuple):
    """What an integer program took: its entries, and iterations of the simplex method, the same wherever it runs."""

    entries: int
    iterations: int


def solve(
    graph: ChoiceGraph, distances: Distances, in_full: Collection[int], most: float, limits: Limits
) -> tuple[Solution | None, Taken]:
    """The choice that takes least, and what it took to find it.

    Arguments:
        graph: What there is to choose.
        distances: What redistributions take.
        in_full: Links of which every version is told.
        most: Seconds that some choice is known to take: the unit of all.
        limits: What bounds the time that it takes.

    Returns:
        The choice; `None` where the program is too large, which then counts as none, or there is no choice. It takes
        forever where all that there are take more than is known to be enough.
    """
    try:
        program = _Program(graph, distances, in_full, most, limits.entries)
    except _TooLargeError:
        return None, Taken(0, 0)
    found, iterations = program.solution(limits)
    return found, Taken(program.filled, iterations)


class _TooLargeError(Exception):
    """The rows of the program have more entries than they may."""


Terms = list[tuple[Numbers, Seconds]]
"""A sum of variables, each so many times."""


class _Arcs(NamedTuple):
    """The ways of a value from each of its layouts to each other."""

    layouts: tuple[TensorSharding, ...]
    before: Numbers
    after: Numbers


class _Program:
    """Variables, what they cost, and rows: each says that a sum of variables lies between two numbers."""

    def __init__(
        self, graph: ChoiceGraph, distances: Distances, in_full: Collection[int], most: float, largest: int
    ) -> None:
        self.graph = graph
        self.distances = distances
        self.most = most
        self.largest = largest
        self.size = self.rows = self.filled = 0
        self.entries: list[tuple[Numbers, Numbers, Seconds]] = []
        self.limits: list[tuple[Seconds, Seconds]] = []
        self.ways = [self.variables(len(node.seconds)) for node in graph.nodes]
        self.whole = self.size
        self.in_full: dict[int, tuple[_Arcs, Numbers]] = {}
        self.row([[(ways, np.ones(ways.size))] for ways in self.ways], 1.0, 1.0)
        self.links = [self.link(number, link, number in in_full) for number, link in enumerate(graph.links)]

    def solution(self, limits: Limits) -> tuple[Solution | None, int]:
        """Solve it, and tell how many iterations that took."""
        from shardwright.partition.search.highs import Rows, minimum  # HiGHS takes a moment to import, many do without

        costs = np.zeros(self.size)
        for node, ways in zip(self.graph.nodes, self.ways, strict=True):
            costs[ways] = node.seconds / self.most
        for link, terms in zip(self.graph.links, self.links, strict=True):
            for variables, factors in terms:
                np.add.at(costs, variables, link.times * factors)
        entries = (np.concatenate(parts) for parts in zip(*self.entries, strict=True))
        rows = Rows(*entries, *(np.concatenate(parts) for parts in zip(*self.limits, strict=True)))
        relaxes = limits.relaxes or self.whole == len(self.ways)
        nodes, most = max(1, limits.work // self.filled), limits.known / self.most
        found, iterations = minimum(costs, self.whole, rows, limits.gap, nodes, relaxes, most)
        if found is None:
            return None, iterations
        chosen = tuple([int(np.argmax(found.values[ways])) for ways in self.ways])
        taken = [self.most * sum(float(found.values[v] @ factors) for v, factors in terms) for terms in self.links]
        arcs = {number: self.taken_arcs(number, found.values) for number in self.in_full}
        return Solution(chosen, tuple(taken), arcs, found.costs * self.most, found.bound * self.most), iterations

    # --- variables and rows

    def variables(self, count: int) -> Numbers:
        """New variables, at least 0."""
        first, self.size = self.size, self.size + count
        return np.arange(first, self.size)

    def row(self, sums: Sequence[Terms], low: float, high: float) -> None:
        """Each of these sums lies between two numbers."""
        for number, terms in enumerate(sums):
            for variables, factors in terms:
                self.enter(self.rows + number, variables, factors)
        self.limits.append((np.full(len(sums), low), np.full(len(sums), high)))
        self.rows += len(sums)

    def rows_of(self, count: int, terms: Sequence[tuple[Numbers, Numbers, float]], low: float, high: float) -> None:
        """Rows at once: in each term the row of every variable, and how often it counts there."""
        for rows, variables, factor in terms:
            self.enter(self.rows + rows, variables, factor)
        self.limits.append((np.full(count, low), np.full(count, high)))
        self.rows += count

    def enter(self, rows: Numbers | int, variables: Numbers, factors: Seconds | float) -> None:
        """In each of these rows a variable counts so many times."""
        self.filled += variables.size
        if self.filled > self.largest:
            raise _TooLargeError
        self.entries.append(
            (np.broadcast_to(rows, variables.shape), variables, np.broadcast_to(factors, variables.shape))
        )

    # --- links

    def link(self, number: int, link: Link, in_full: bool) -> Terms:
        """What a value takes."""
        if len(link.readers) < 2 and not (in_full and link.is_shared):
            readers = zip(link.readers, runs_at_least(self.graph, link), self.of_readers(link), strict=True)
            return [term for reader, runs, seconds in readers for term in self.way_to(link, reader, runs * seconds)]
        radii = self.radii(link)
        if not in_full:
            return radii
        taken, one = self.variables(1), np.ones(1)
        for terms in (radii, self.arcs(number, link)):
            self.row([[(taken, one), *[(variables, -factors) for variables, factors in terms]]], 0.0, np.inf)
        return [(taken, one)]

    def way_to(self, link: Link, reader: End, seconds: Seconds) -> Terms:
        """What it takes to bring a value from where it is made to where it is read, by that between layouts."""
        made, read = self.graph.slot(link.maker), self.graph.slot(reader)
        makers, readers = self.ways[link.maker[0]], self.ways[reader[0]]
        if len(made.layouts) == 1:
            return [(readers, seconds[0][read.of_way])]
        if len(read.layouts) == 1:
            return [(makers, seconds[:, 0][made.of_way])]
        before, after = (numbers.ravel() for numbers in np.indices(seconds.shape))
        pairs = self.variables(seconds.size)
        self.rows_of(len(made.layouts), [(before, pairs, 1.0), (made.of_way, makers, -1.0)], 0.0, 0.0)
        self.rows_of(len(read.layouts), [(after, pairs, 1.0), (read.of_way, readers, -1.0)], 0.0, 0.0)
        return [(pairs, seconds.ravel())]

    def radii(self, link: Link) -> Terms:
        """The dearest way of a value that is read in a scope, beyond that in the scopes around."""
        scopes = {reader: self.scopes(link, reader) for reader in link.readers}
        beyond = {scope: self.variables(1) for scope in sorted(set(itertools.chain.from_iterable(scopes.values())))}
        one = np.ones(1)
        for reader, seconds in zip(link.readers, self.of_readers(link), strict=True):
            there: Terms = [(beyond[scope], one) for scope in scopes[reader]]
            back = [(variables, -factors) for variables, factors in self.way_to(link, reader, seconds)]
            self.row([[*there, *back]], 0.0, np.inf)
        return [(variable, one * self.graph.scopes[scope].runs) for scope, variable in beyond.items()]

    def arcs(self, number: int, link: Link) -> Terms:
        """Every version that is read is the one made first, or made of another one, in its scope or one around: from
        the first a flow leads to it, through arcs that are taken.
        """
        all_layouts = tuple(self.graph.layouts(link))
        layouts = {layout: place for place, layout in enumerate(all_layouts)}
        seconds = self.of_most(self.distances.between(link.type, all_layouts, all_layouts))
        arcs = _Arcs(all_layouts, *np.nonzero(~np.eye(len(layouts), dtype=bool)))
        scopes = {reader: tuple(self.scopes(link, reader)) for reader in link.readers}
        taken = {scope: self.variables(arcs.before.size) for scope in sorted({*itertools.chain(*scopes.values())})}
        made = self.numbered(link.maker, layouts)
        for around in dict.fromkeys(scopes.values()):
            there = [self.numbered(reader, layouts) for reader in link.readers if scopes[reader] == around]
            for layout in sorted({*itertools.chain(*[numbers.tolist() for _, numbers in there])}):
                readers = [ways[numbers == layout] for ways, numbers in there]
                self.flow(arcs, layout, made, readers, [taken[scope] for scope in around])
        self.in_full[number] = arcs, np.concatenate([*taken.values()])
        runs = self.graph.scopes
        return [(used, seconds[arcs.before, arcs.after] * runs[scope].runs) for scope, used in taken.items()]

    def numbered(self, end: End, layouts: Mapping[TensorSharding, int]) -> tuple[Numbers, Numbers]:
        """The ways at an end, and the number of the layout that each has."""
        slot = self.graph.slot(end)
        return self.ways[end[0]], np.array([layouts[layout] for layout in slot.layouts])[slot.of_way]

    def flow(
        self,
        arcs: _Arcs,
        target: int,
        made: tuple[Numbers, Numbers],
        readers: Sequence[Numbers],
        taken: Sequence[Numbers],
    ) -> None:
        """As much as each reader reads of a version flows there from what is made first, through arcs taken."""
        count, each = len(arcs.layouts), np.arange(arcs.before.size)
        flow, start = self.variables(arcs.before.size), self.variables(count)
        self.rows_of(each.size, [(each, flow, 1.0), *[(each, variables, -1.0) for variables in taken]], -np.inf, 0.0)
        self.rows_of(count, [(np.arange(count), start, 1.0), (made[1], made[0], -1.0)], -np.inf, 0.0)
        here = (np.arange(count), start, 1.0), (arcs.after, flow, 1.0), (arcs.before, flow, -1.0)
        for ways in readers:
            self.rows_of(count, [*here, (np.full(ways.size, target), ways, -1.0)], 0.0, np.inf)

    def taken_arcs(self, number: int, values: Seconds) -> tuple[tuple[TensorSharding, TensorSharding], ...]:
        """The layouts between which a value was brought."""
        arcs, variables = self.in_full[number]
        if not variables.size:  # only one layout is left
            return ()
        used = np.flatnonzero(values[variables].reshape(-1, arcs.before.size).max(0) > _USED)
        return tuple([(arcs.layouts[arcs.before[arc]], arcs.layouts[arcs.after[arc]]) for arc in used])

    def scopes(self, link: Link, reader: End) -> list[int]:
        """The scopes in which a version may be made for a reader."""
        return self.graph.around(link, self.graph.slot(reader).scope)

    def of_readers(self, link: Link) -> list[Seconds]:
        """What it takes from where a value is made to where each reader has it: of a graph with fewer ways, from the
        same tables as in the other one.
        """
        made, found = self.graph.slot(link.maker).numbers, list[Seconds]()
        of_readers = self.distances.of_readers(self.graph.whole or self.graph, link)
        for reader, table in zip(link.readers, of_readers, strict=True):
            seconds, read = self.of_most(table), self.graph.slot(reader).numbers
            found.append(seconds if made is None or read is None else seconds[np.ix_(made, read)])
        return found

    def of_most(self, seconds: Seconds) -> Seconds:
        """What it takes from each layout to each, of what all takes; what is impossible more than all."""
        of_most: Seconds = np.minimum(seconds / self.most, _IMPOSSIBLE)
        return of_most
