"""The optimum of a choice graph, most of whose ways are left out before it is looked for.

Messages say what choices with a way take at least. A choice is read off them; where some might take less, it is made
better by forests, by the best that can be mixed of the last ones that were read, each of which is right somewhere, and
by the best in windows. No way that is bound to take more than what is found need be looked at: of those that are left,
the optimum is that of all. Where that is too much to solve, few ways of each node are looked at, with the bound of the
messages.

Source: of mixing choices, Lempitsky, Rother, Roth and Blake, "Fusion Moves for Markov Random Field Optimization"
(2010).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.chosen import Solution, solution_of
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.forests import Forests
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.integer import Limits, Taken, solve
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.rest import Rest
from shardwright.partition.search.windows import windows

__all__ = ["Asked", "Budget", "Reduced"]

_FIRST, _AGAIN = 6, 2
"""How many passes messages take, at first and after distances changed."""

_SETTLES, _SETTLED = 24, 0.02
"""How often messages are passed again at most, and the part of what is not proven below which a growing bound rests."""

_PROVEN, _NEARLY, _NEARER = 1e-8, 1e-4, 0.2
"""How much more than the bound is none; where what is alike is chosen alike; and of many ways, as a part of how near a
choice is to be: passes rest then.
"""

_FEW, _SMALL = (8, 4, 2), 2
"""How many ways of a node are looked at where all that may be the best are too many, and how many times as many as the
first of these are hardly more.
"""

_FAR, _MIXED = 0.02, 12
"""How much more than the bound has choices mixed, and how many of those that were read off last."""

_SWEPT = 3
"""How often a choice is made better in windows at most."""

_CLOSE = 1e-9
"""A part of what all takes that is rounding."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What bounds the time that a choice takes, the same for the same program wherever it is chosen; of the few integer
    programs that nothing here ends, seconds do: `highs.LONGEST`.

    Attributes:
        whole: Nodes that the choice graph may have for none to be chosen alike.
        nodes: Nodes that are told apart where it has more.
        apart: Ways that nodes may have together for more of them to be told apart.
        sweeps: How many forests a choice is made better by at first, and how many after distances changed.
        each: What bounds an integer program.
        all: Entries that all of them may have together.
        iterations: And iterations of the simplex method that they may take before no more of them are solved.
        rounds: How often it is chosen anew at most.
        ways: How many ways all nodes may have together for the best to be looked for; of more, one near the bound will
            do.
        near: How near, as a part of the bound.
        passes: How often messages pass for all ways of a graph, times these, before nothing is chosen anew any more.
        lifted: How many ways all nodes of a graph that was folded may have together for messages to be passed on among
            them.
        unfolded: And for all of them to be chosen by themselves where that leaves too much unproven.
    """

    whole: int
    nodes: int
    apart: int
    sweeps: tuple[int, int]
    each: Limits
    all: int
    iterations: int
    rounds: int
    ways: int
    near: float
    passes: int
    lifted: int
    unfolded: int


class Reduced:
    """A choice graph, of which better and better bounds are known.

    Attributes:
        bound: What every choice takes at least, by what is known of distances, of which never less is known.
        plain: The same by an integer program in which no value is told in full, if there was one.
        is_told_more: Whether integer programs that tell in full may tell more than is known.
    """

    def __init__(
        self, graph: ChoiceGraph, first: tuple[int, ...], most: float, budget: Budget, is_whole: bool = True
    ) -> None:
        """Nothing known yet but that the choice `first` takes `most` seconds.

        Arguments:
            graph: What there is to choose.
            first: Of every node, the number of a way.
            most: Seconds.
            budget: What bounds the time that it takes.
            is_whole: Whether each node stands for itself: else the best choice is not quite that of all anyway.
        """
        self.graph = graph
        self.most = most
        self.messages = Messages(graph, 10 * most)
        self.passes = _FIRST
        self.forests: Forests | None = None
        self.rest: Rest | None = None
        self.sweeps = budget.sweeps
        self.each = budget.each
        self.left = Taken(budget.all, budget.iterations)
        self.ways = sum([node.seconds.size for node in graph.nodes])
        few = _PROVEN if is_whole else min(_NEARLY, budget.near)
        self.proven = few if self.ways <= budget.ways else _NEARER * budget.near
        self.passes_left = budget.passes
        self.found = first
        self.bound = 0.0
        self.plain: float | None = None
        self.is_told_more = True
        self.read = deque[tuple[int, ...]](maxlen=_MIXED)

    def solve(
        self, distances: Distances, in_full: Collection[int], known: float, proves: bool = True
    ) -> Solution | None:
        """The choice that takes least, or one near it with a bound of what that takes.

        Arguments:
            distances: What redistributions take.
            in_full: Links of which every version is told.
            known: Seconds that some choice is known to take; those that take more are not looked for.
            proves: Whether an integer program is solved where it is not known to be the best; else a good one will do.

        Returns:
            The choice; `None` where none was found.
        """
        found = self.better(distances)
        self.bound = max(self.bound, self.messages.bound, found.bound)
        if any(distances.of_trees(self.graph, self.graph.links[number]) is None for number in in_full):
            found = self.told(found, distances, in_full) or (replace(found, seconds=math.inf) if proves else found)
        if proves and not self.is_near(found):
            asked = Asked(distances, in_full, known, self.messages.of_ways())
            for step in (self.in_windows, self.among_few, self.plainly, self.wholly):
                found = step(found, asked)
                if self.is_near(found):
                    break
        return self.bounded(found) if math.isfinite(found.seconds) else None

    def is_near(self, found: Solution) -> bool:
        """Whether no choice takes much less."""
        return found.seconds <= self.bound * (1 + self.each.gap)

    def bounded(self, found: Solution) -> Solution:
        """What is found now, with the bound of all choices."""
        self.found = found.ways
        return replace(found, bound=max(min(found.seconds, self.bound), 0.0))

    def rounded_up(self, seconds: float) -> float:
        """No less than so many seconds, added up in whatever order."""
        return seconds * (1 + _CLOSE) + 1e-12 * self.most

    def told(self, found: Solution, distances: Distances, in_full: Collection[int]) -> Solution | None:
        """The same choice with these links told in full; `None` where that is too much."""
        return self.solved([np.array([way]) for way in found.ways], distances, in_full, self.each).found

    def in_windows(self, found: Solution, asked: Asked) -> Solution:
        """What was found, made better by the best choices in one window after the other, all else being as it is."""
        for _ in range(_SWEPT):
            before, kept = found.seconds, _kept(asked.least, self.rounded_up(found.seconds))
            for window in windows([ways.size for ways in kept]):
                own = [np.array([way]) for way in found.ways]
                own[window.start : window.stop] = kept[window.start : window.stop]
                limits = self.each._replace(known=found.seconds, work=0)
                found = _best(found, self.solved(own, asked.distances, asked.in_full, limits).found)
            if found.seconds > before * (1 - self.each.gap):
                break
        return found

    def among_few(self, found: Solution, asked: Asked) -> Solution:
        """The best choice among few ways of each node, where nothing is told in full: mostly the best of all is there
        where the bound is tight.
        """
        return found if asked.in_full else _best(found, self.among_some(asked, _FEW[1:]))

    def plainly(self, found: Solution, asked: Asked) -> Solution:
        """What is proven once by an integer program that tells nothing in full, and told in full then: what is told
        makes it large, without that more is proven sometimes.
        """
        if not asked.in_full or self.plain is not None:
            return found
        limit = self.limit(found, asked)
        plain = self.proves(_kept(asked.least, limit), asked.distances, (), limit)
        self.plain = None if plain is None else plain.bound
        told = self.told(plain, asked.distances, asked.in_full) if plain and math.isfinite(plain.seconds) else None
        return _best(found, told)

    def wholly(self, found: Solution, asked: Asked) -> Solution:
        """What is proven by an integer program; where that is too much, the best among some ways of each node.

        Those that tell less than messages do when nothing is told would not tell more of more, unless they are small;
        and one that told in full tells nothing new would not tell more the next time.
        """
        if not self.is_told_more:
            return found
        limit, before = self.limit(found, asked), self.bound
        kept = _kept(asked.least, limit)
        ways, few = sum(map(len, kept)), _FEW[0] * len(kept)
        is_weak = self.plain is not None and self.plain < self.messages.bound
        whole = None if is_weak and ways > _SMALL * few else self.proves(kept, asked.distances, asked.in_full, limit)
        if whole is not None:
            self.is_told_more = not asked.in_full or self.bound > before
            return _best(found, whole)
        return _best(found, self.among_some(asked, _FEW if asked.in_full else _FEW[:1], ways, limit))

    def limit(self, found: Solution, asked: Asked) -> float:
        """Seconds: choices that take more are not looked for."""
        return self.rounded_up(min(asked.known, found.seconds))

    def proves(
        self, kept: Sequence[Numbers], distances: Distances, in_full: Collection[int], limit: float
    ) -> Solution | None:
        """The best choice among all ways that choices below a limit may have, which tells what every choice takes."""
        whole = self.among(kept, distances, in_full, limit)
        if whole is not None:  # with any way that was left out it takes more than the limit
            self.bound = max(self.bound, min(whole.bound, limit))
        return whole

    def mixed(self, found: Solution, distances: Distances) -> Solution:
        """The best choice of which each way is one of what was found or read off lately."""
        kept = [np.unique(ways) for ways in zip(self.found, *self.read, strict=True)]
        mixed = self.solved(kept, distances, (), self.each._replace(gap=_FAR)).found
        if mixed is not None:  # it knows nothing of trees
            mixed = self.again(mixed, distances)
        if mixed is None or mixed.seconds >= found.seconds:
            return found
        self.found = mixed.ways
        return replace(mixed, bound=found.bound)

    def read_off(self, distances: Distances, onward: bool = True) -> Solution:
        """What is read off the messages, made better node by node, or what was found before, if that is better."""
        bound = self.messages.least(distances, self.passes, onward)
        self.passes_left -= self.passes * self.ways
        self.passes = _AGAIN
        if self.rest is None or self.rest.distances is not distances or self.rest.changes != distances.changes:
            self.rest = Rest(self.graph, distances, _CLOSE * self.most, self.rest)
        chosen = self.messages.chosen()
        near = self.rest.from_start(chosen)
        if near.seconds > bound * (1 + self.proven):
            near = min(self.rest.from_start(self.found), near, key=attrgetter("seconds"))
        self.found = near.ways
        if near.seconds > bound * (1 + _FAR):
            self.read += (chosen, self.messages.chosen(backwards=True), near.ways)
        return replace(near, bound=min(near.seconds, bound))

    def again(self, solution: Solution, distances: Distances) -> Solution:
        """What was read off with these distances, now that more is known of them."""
        tables = self.rest.tables if self.rest else None
        return solution_of(self.graph, solution.ways, distances, solution.bound, tables)

    def better(self, distances: Distances) -> Solution:
        """What is read off the messages when these have settled, made better by forests where it is not proven to be
        the best already.
        """
        near = self.settled(distances)
        if near.seconds <= near.bound * (1 + self.each.gap):
            return near
        self.forests = Forests(self.graph, distances, 10 * self.most, self.forests)
        first, again = self.sweeps
        self.found = self.forests.improved(self.found, first)
        self.sweeps = again, again
        found = self.again(replace(near, ways=self.found, bound=self.messages.bound), distances)
        if found.seconds > near.seconds:  # forests know nothing of trees
            self.found, found = near.ways, replace(near, bound=self.messages.bound)
        return self.mixed(found, distances) if found.seconds > found.bound * (1 + _FAR) else found

    def settled(self, distances: Distances) -> Solution:
        """What is read off the messages when nothing is left to prove, or the bound rests."""
        for _ in range(_SETTLES):
            before = self.messages.bound
            near = self.read_off(distances)
            bound, left = self.messages.bound, near.seconds - self.messages.bound
            if left <= self.proven * bound:
                return near
            if bound - before <= _SETTLED * left:
                break
        with self.messages.aside():  # plain passes tell more clearly what to choose, and lead less far
            return self.read_off(distances, onward=False)

    def among_some(
        self, asked: Asked, sizes: Sequence[int], ways: float = math.inf, known: float = math.inf
    ) -> Solution | None:
        """The best choice among ways of choices that may take least, and what was found: as many of each node as the
        first of some numbers that is not too much, and fewer than so many together.
        """
        for kept in (self.few(asked.least, most) for most in sizes):
            is_less = sum(map(len, kept)) < ways
            among = self.among(kept, asked.distances, asked.in_full, known) if is_less else None
            if among is not None:
                return among
        return None

    def few(self, least: Sequence[Seconds], most: int) -> list[Numbers]:
        """So many ways of each node on average, of choices that may take least, and the way that was found.

        Nodes of which many ways are as good as any have more of them: which of these is right is not known. All have
        half as many in any case.
        """
        orders = [np.argsort(of_node, kind="stable") for of_node in least]
        places = np.concatenate([np.arange(order.size) for order in orders])
        excess = np.concatenate([of_node[order] - of_node.min() for of_node, order in zip(least, orders, strict=True)])
        excess[places < most // 2] = 0.0
        is_kept = np.zeros(places.size, dtype=bool)
        as_good = np.floor(excess / (_CLOSE * self.most))
        is_kept[np.lexsort((places, as_good))[: most * len(orders)]] = True
        of_each = np.split(is_kept, np.cumsum([order.size for order in orders])[:-1])
        kept = zip(orders, of_each, self.found, strict=True)
        return [np.union1d(order[is_kept], way) for order, is_kept, way in kept]

    def among(
        self, kept: Sequence[Numbers], distances: Distances, in_full: Collection[int], known: float = math.inf
    ) -> Solution | None:
        """The best choice among some ways; `None` if they are too many. It takes forever where all take more than is
        known to be enough.
        """
        entries, iterations = self.left
        if iterations <= 0:
            return None
        limits = self.each._replace(entries=min(self.each.entries, entries), known=known)
        found, taken = self.solved(kept, distances, in_full, limits)
        self.left = Taken(entries - taken.entries, iterations - taken.iterations)
        return found

    def solved(
        self, kept: Sequence[Numbers], distances: Distances, in_full: Collection[int], limits: Limits
    ) -> _Solved:
        """The same within any limits, which is not taken from what those programs may take that prove."""
        found, taken = solve(self.graph.restricted(kept), distances, in_full, self.most, limits)
        if found is None or 5 * self.most < found.seconds < math.inf:
            return _Solved(None, taken)
        ways = tuple([int(ways[way]) for ways, way in zip(kept, found.ways, strict=True)])
        return _Solved(replace(found, ways=ways), taken)


class Asked(NamedTuple):
    """What is asked of a choice; see `Reduced.solve`.

    Attributes:
        distances: What redistributions take.
        in_full: Links of which every version is told.
        known: Seconds that some choice is known to take.
        least: Of each node, what choices with each of its ways take at least.
    """

    distances: Distances
    in_full: Collection[int]
    known: float
    least: Sequence[Seconds]


class _Solved(NamedTuple):
    """The best choice among some, if one was found, and what that took."""

    found: Solution | None
    taken: Taken


def _best(found: Solution, other: Solution | None) -> Solution:
    """The one that takes less."""
    return found if other is None or found.seconds <= other.seconds else other


def _kept(least: Sequence[Seconds], most: float) -> list[Numbers]:
    """Of each node the ways of choices that may take no more than that; one in any case."""
    return [np.flatnonzero(of_node <= max(most, float(of_node.min()))) for of_node in least]
