"""The cheapest chain of collectives between two layouts, on bare numbers.

A `Problem` has forgotten names and sizes in bytes. What remains is shared by many redistributions, so answers are
remembered per problem. The search is A*: costs are exact integers; the bound on what is still to be sent is what the
device that holds the least of its final part must receive.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from shardwright.memo import memoize
from shardwright.reshard.atoms import Edge, Layout, Node, Problem, SearchState
from shardwright.reshard.edges import Edges

__all__ = ["AGAIN", "EXPANSIONS", "ON_TORUS", "CheapestChain", "edges_of", "least_peak", "search"]

EXPANSIONS = 1000
"""After this many layouts looked at, the best chain found by then is taken."""

_POLISHED = 5
"""By what they are divided once it is clear that no chain sends less: only fewer collectives are still looked for."""

_FEW_ATOMS = 4
"""With more atoms than so many, fewer layouts are looked at: there are thousands of them that send the same."""

_FOR_ALL = 0.2
"""Of many atoms all layouts are looked at where this part of what is sent may be saved; where less may, fewer."""

AGAIN = 60
"""And so many at most where atoms that were searched are cut further: of 900 such searches one found more that way."""

ON_TORUS = 150
"""And so many of more than three atoms on a torus: of 800 plans none took less that looked at a thousand."""


_Cost = tuple[int, int, int]
"""Costs in the order in which they matter: sent, collectives, highest local size. A search makes thousands."""


_Place = tuple[SearchState, int]
"""A state, and where they are counted how many collectives were started on the way to it."""

_Label = tuple[_Cost, _Place | None, str]
"""How a place is best reached: at which cost, from which place, by which kind of step."""


class CheapestChain(NamedTuple):
    """The cheapest chain found.

    Attributes:
        nodes: What its steps lead to, without the source.
        starts: How many collectives of the per-device program it is.
        least: Whether no chain sends less, however atoms are cut.
    """

    nodes: tuple[Node, ...]
    starts: int
    least: bool


@memoize
def search(
    problem: Problem,
    most_held: int | None = None,
    most_starts: int | None = None,
    most_sent: int | None = None,
    most_looked: int = EXPANSIONS,
) -> CheapestChain | None:
    """The chain from source to target that sends least, and among those the one of fewest collectives.

    Arguments:
        problem: What is to be done.
        most_held: What a device may hold at most, in the units of `Edges.local`.
        most_starts: How many collectives may be started at most.
        most_sent: What a device may send at most, in the same units: another way is known that is as good.
        most_looked: How many layouts are worth a look, where something is known.

    Returns:
        The chain; `None` if none was found within these limits. There is none then, but where something else is known.
    """
    return _Search(problem, most_held, most_starts, most_sent, most_looked).run()


@memoize
def least_peak(problem: Problem) -> int:
    """The least that a device must be able to hold for there to be a chain, in the units of `Edges.local`."""
    edges = Edges(problem)
    ends = max(edges.local(problem.source), edges.local(problem.target))
    parts = {1}
    for size in problem.sizes:
        parts |= {part * size for part in parts}
    for held in sorted(edges.scale // part for part in parts):
        if held >= ends and search(problem, held) is not None:
            return held
    raise AssertionError("unreachable: every target is reached by gathering all and slicing")


@lru_cache(maxsize=1)
def edges_of(problem: Problem) -> Edges:
    """The graph of the problem that is being searched: of one, since it grows with what is looked at."""
    return Edges(problem)


class _Search:
    """One run of A* and what it needs at hand."""

    def __init__(
        self,
        problem: Problem,
        most_held: int | None,
        most_starts: int | None,
        most_sent: int | None,
        most_looked: int,
    ) -> None:
        self.problem = problem
        self.edges = edges_of(problem)
        self.most_held = self.edges.scale if most_held is None else most_held
        self.most_starts = most_starts
        self.most_sent = most_sent
        self.most_looked = most_looked
        self.labels: dict[_Place, _Label] = {}
        self.best: tuple[_Cost, tuple[Node, ...]] | None = None
        self.least: _Cost = (0, 0, 0)

    def run(self) -> CheapestChain | None:
        """A quick dive gives a chain to beat where none is known; the search proper drops whatever cannot beat it."""
        problem = self.problem
        start = SearchState(problem.source, problem.partial, not problem.permute, "")
        held = self.edges.local(start.layout)
        if held > self.most_held or self.is_too_far(start, 0):
            return None
        if self.done(start):
            return CheapestChain((), 0, True)
        self.least = self.bound(start, (0, 0, max(held, self.edges.final)))
        if self.sends_too_much(self.least[0]):
            return None
        if self.most_sent is None:  # else there is something to beat, and a dive closes places that are reached better
            self.explore((start, 0), greedily=True)
            if self.best is None:
                return None
        if self.best is None or self.best[0] > self.least:
            self.explore((start, 0), greedily=False)
        if self.best is None:
            return None
        cost, nodes = self.best
        return CheapestChain(nodes, cost[1], cost[0] == self.least[0])

    def explore(self, start: _Place, greedily: bool) -> None:
        """Expand places, those with the lowest bound first or, `greedily`, by a bound that overrates what is left."""
        self.labels = {start: ((0, 0, self.edges.local(start[0].layout)), None, "")}
        queue: list[tuple[tuple[int, ...], int, _Place]] = [((0, 0, 0), 0, start)]
        closed: set[_Place] = set()
        while queue:
            order, _, place = heapq.heappop(queue)
            if place in closed:
                continue
            if (greedily and self.best is not None) or self.enough(order, len(closed)):
                return
            closed.add(place)
            for edge in self.onward(place):
                after = edge.state, 0 if self.most_starts is None else place[1] + edge.starts
                if after in closed:
                    continue
                bound = self.improved(place, edge, after)
                if self.best is not None and self.best[0] == self.least:
                    return
                if bound is not None:
                    key = self.order(after, bound, greedily)
                    heapq.heappush(queue, (key, -len(self.labels), after))

    def onward(self, place: _Place) -> Iterator[Edge]:
        """The steps from a place that may lead to less than what is known."""
        (sent, *_), _, _ = self.labels[place]
        for ways in self.edges.leaving(place[0]):
            least = sent + ways.least
            if not self.sends_too_much(least) and (self.best is None or least <= self.best[0][0]):
                yield from ways.edges

    def order(self, place: _Place, bound: _Cost, greedily: bool) -> tuple[int, ...]:
        """What sorts the places to expand; among equals, those that look nearer to the target come first."""
        cost, _, _ = self.labels[place]
        rest, mismatch = bound[0] - cost[0], self.mismatch(place[0].layout)
        return (bound[0] + rest, mismatch, rest, *bound) if greedily else (*bound, rest, mismatch)

    def enough(self, order: tuple[int, ...], expanded: int) -> bool:
        """Whether nothing can beat what was found, `order` being the lowest there is, or too much was tried."""
        if self.best is None:
            return self.most_sent is not None and expanded > self.worth(self.most_sent)
        best, _ = self.best
        most = self.worth(best[0])
        return order[:3] >= best or expanded > (most // _POLISHED if order[0] == best[0] else most)

    def worth(self, sent: int) -> int:
        """How many layouts are worth a look where so much is known to be enough."""
        if len(self.edges.sizes) <= _FEW_ATOMS - bool(self.edges.over):
            return EXPANSIONS
        if self.edges.over:  # whoever asks knows how much there is to gain
            return self.most_looked
        return math.ceil(self.most_looked * min(1.0, (sent - self.least[0]) / (_FOR_ALL * max(1, sent))))

    def improved(self, before: _Place, edge: Edge, after: _Place) -> _Cost | None:
        """Label the place that `edge` leads to and bound what goes on from there.

        Nothing where better is known, or where it is beyond the limits.
        """
        (sent, starts, peak), _, _ = self.labels[before]
        held = self.edges.local(edge.state.layout)
        cost = sent + edge.sent, starts + edge.starts, max(peak, held)
        known = self.labels.get(after)
        if held > self.most_held or (known is not None and known[0] <= cost):
            return None
        bound = self.bound(edge.state, cost)
        if (self.best is not None and bound >= self.best[0]) or self.sends_too_much(bound[0]):
            return None
        if self.is_too_far(edge.state, cost[1]):
            return None
        self.labels[after] = cost, before, edge.kind
        if self.done(edge.state):
            self.best = (cost, self.path(after))
        return bound

    def path(self, place: _Place | None) -> tuple[Node, ...]:
        """The steps that led to `place`."""
        nodes: list[Node] = []
        while place is not None:
            _, parent, kind = self.labels[place]
            if parent is not None:
                state, _ = place
                nodes.append(Node(kind, state.layout, state.partial))
            place = parent
        return tuple(reversed(nodes))

    def bound(self, state: SearchState, cost: _Cost) -> _Cost:
        """What no chain through `state`, reached at `cost`, goes below."""
        sent, starts, peak = cost
        rest = self.edges.to_send(state)
        return sent + rest, starts + (rest > 0 and state.run == ""), peak

    def is_too_far(self, state: SearchState, started: int) -> bool:
        """Whether more collectives must be started from `state` on than are left."""
        return self.most_starts is not None and started + self.edges.to_start(state) > self.most_starts

    def sends_too_much(self, least: int) -> bool:
        """Whether what is sent at least is more than may be."""
        return self.most_sent is not None and least > self.most_sent

    def mismatch(self, layout: Layout) -> int:
        """1 if every dimension has as many shards as in the target, and the more, the more they differ."""
        product = 1
        for atoms, goal in zip(layout, self.edges.counts, strict=True):
            have = self.edges.count(atoms)
            product *= have * goal // math.gcd(have, goal) ** 2
        return product

    def done(self, state: SearchState) -> bool:
        """Whether `state` is the target."""
        return state.permuted and not state.partial and state.layout == self.problem.target
