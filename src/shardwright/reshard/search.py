"""The cheapest chain of collectives between two layouts, on bare numbers.

A `Problem` has forgotten names and sizes in bytes: axes are *atoms*, small integers that are moved whole. What remains
is shared by many redistributions, so answers are remembered per problem. The search is A*: costs are exact integers, in
units of an unsharded buffer divided by `scale`; the bound on what is still to be sent is what the device that holds
the least of its final part must receive.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from shardwright.memo import memoize

__all__ = [
    "EXCHANGE",
    "GATHER",
    "PERMUTE",
    "REDUCE",
    "SCATTER",
    "SLICE",
    "Atoms",
    "Chain",
    "Layout",
    "Node",
    "Problem",
    "search",
]

Atoms = tuple[int, ...]
"""Atoms, major to minor."""

Layout = tuple[Atoms, ...]
"""The atoms of every dimension."""

SLICE, GATHER, EXCHANGE, PERMUTE, REDUCE, SCATTER = "slice", "gather", "exchange", "permute", "reduce", "scatter"

_EXPANSIONS = 1000
"""After this many layouts looked at, the best chain found by then is taken."""

_POLISHING = 200
"""The same, once it is clear that no chain sends less: only fewer collectives are still looked for."""

_FEW = 4
"""Up to this many atoms, every layout that all_gather makes the target is tried as the way there."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A redistribution without names.

    Attributes:
        sizes: Devices along each atom.
        lengths: Per dimension, a number that a product of atom sizes divides if and only if it may split it.
        source: Where the atoms are.
        target: Where they shall be.
        partial: Atoms along which contributions must be combined.
        kinds: For each of them, the number of its reduction; those of the highest number must come first.
        clashes: Per atom, the set (as bits) of atoms that cannot be in use together with it.
        permute: Whether a permute must be among the steps, because the order of devices changes.
    """

    sizes: Atoms
    lengths: tuple[int, ...]
    source: Layout
    target: Layout
    partial: Atoms
    kinds: tuple[int, ...]
    clashes: tuple[int, ...]
    permute: bool


class Node(NamedTuple):
    """The `kind` of a step and what it leads to. Neighbours of one kind are one collective, where that can be."""

    kind: str
    layout: Layout
    partial: Atoms


class _State(NamedTuple):
    """Where a search may be. `run` names the collective that the next step may still be part of."""

    layout: Layout
    partial: Atoms
    permuted: bool
    run: str


class _Cost(NamedTuple):
    """Costs in the order in which they matter: sent, collectives, highest local size."""

    sent: int
    collectives: int
    peak: int


class _Edge(NamedTuple):
    sent: int
    kind: str
    state: _State


class _Label(NamedTuple):
    """How a state is best reached."""

    cost: _Cost
    parent: _State | None
    kind: str


class Chain(NamedTuple):
    """The cheapest chain found, without the source, and whether nothing can send less, however atoms are cut."""

    nodes: tuple[Node, ...]
    least: bool


@memoize
def search(problem: Problem) -> Chain:
    """The cheapest chain from source to target."""
    return _Search(problem).run()


class _Search:
    """One run of A* and what it needs at hand."""

    def __init__(self, problem: Problem) -> None:
        self.sizes = problem.sizes
        self.problem = problem
        self.products: dict[Atoms, int] = {}
        self.devices = math.prod(problem.sizes)
        self.scale = self.devices**2
        self.counts = tuple(self.count(atoms) for atoms in problem.target)
        self.final = self.scale // math.prod(self.counts)
        self.kind_of = dict(zip(problem.partial, problem.kinds, strict=True))
        self.spare = frozenset(range(len(self.sizes))).difference(*problem.target)
        self.labels: dict[_State, _Label] = {}
        self.best: tuple[_Cost, tuple[Node, ...]] | None = None

    def run(self) -> Chain:
        """A quick dive gives a chain to beat; the search proper then drops whatever cannot beat it."""
        problem = self.problem
        start = _State(problem.source, problem.partial, not problem.permute, "")
        if self.done(start):
            return Chain((), True)
        least = self.bound(start, _Cost(0, 0, self.local(start.layout)))
        for greedily in (True, False):
            if self.best is None or self.best[0] > least:
                self.explore(start, greedily)
        if self.best is None:
            raise AssertionError("unreachable: every target is reached by gathering all and slicing")
        cost, nodes = self.best
        return Chain(nodes, cost.sent == least.sent)

    def explore(self, start: _State, greedily: bool) -> None:
        """Expand states, those with the lowest bound first or, `greedily`, by a bound that overrates what is left."""
        self.labels = {start: _Label(_Cost(0, 0, self.local(start.layout)), None, "")}
        queue: list[tuple[tuple[int, ...], int, _State]] = [((0, 0, 0), 0, start)]
        closed: set[_State] = set()
        while queue:
            order, _, state = heapq.heappop(queue)
            if state in closed:
                continue
            if self.best is not None and (greedily or self.enough(self.best[0], order, len(closed))):
                return
            closed.add(state)
            for edge in self.edges(state):
                if edge.state in closed:
                    continue
                bound = self.improved(state, edge)
                if bound is not None:
                    key = self.order(edge.state, bound, greedily)
                    heapq.heappush(queue, (key, -len(self.labels), edge.state))

    def order(self, state: _State, bound: _Cost, greedily: bool) -> tuple[int, ...]:
        """What sorts the states to expand; among equals, those that look nearer to the target come first."""
        rest = bound.sent - self.labels[state].cost.sent
        mismatch = self.mismatch(state.layout)
        return (bound.sent + rest, mismatch, rest, *bound) if greedily else (*bound, rest, mismatch)

    def enough(self, best: _Cost, order: tuple[int, ...], expanded: int) -> bool:
        """Whether nothing can beat `best`, `order` being the lowest there is, or too much was tried."""
        return order[:3] >= best or expanded > (_POLISHING if order[0] == best.sent else _EXPANSIONS)

    def improved(self, state: _State, edge: _Edge) -> _Cost | None:
        """Label the state that `edge` leads to and bound what goes on from there, unless better is known."""
        cost = self.after(state, edge)
        known = self.labels.get(edge.state)
        if known is not None and known.cost <= cost:
            return None
        bound = self.bound(edge.state, cost)
        if self.best is not None and bound >= self.best[0]:
            return None
        self.labels[edge.state] = _Label(cost, state, edge.kind)
        if self.done(edge.state):
            self.best = (cost, self.path(edge.state))
        return bound

    def path(self, state: _State | None) -> tuple[Node, ...]:
        """The steps that led to `state`."""
        nodes: list[Node] = []
        while state is not None:
            _, parent, kind = self.labels[state]
            if parent is not None:
                nodes.append(Node(kind, state.layout, state.partial))
            state = parent
        return tuple(reversed(nodes))

    def after(self, state: _State, edge: _Edge) -> _Cost:
        """The cost of the chain that goes on from `state` with `edge`."""
        sent, collectives, peak = self.labels[state].cost
        joins = edge.kind == SLICE or (edge.state.run != "" and edge.state.run == state.run)
        return _Cost(sent + edge.sent, collectives + (not joins), max(peak, self.local(edge.state.layout)))

    def bound(self, state: _State, cost: _Cost) -> _Cost:
        """What no chain through `state`, reached at `cost`, goes below."""
        rest = self.to_send(state)
        return _Cost(cost.sent + rest, cost.collectives + (rest > 0 and state.run == ""), cost.peak)

    def mismatch(self, layout: Layout) -> int:
        """1 if every dimension has as many shards as in the target, and the more, the more they differ."""
        product = 1
        for atoms, want in zip(layout, self.counts, strict=True):
            have = self.count(atoms)
            product *= have * want // math.gcd(have, want) ** 2
        return product

    def to_send(self, state: _State) -> int:
        """What a device must receive at least, and so, as all do alike, send.

        Of a reduced tensor, what the device that holds the least of its final part lacks. Of a partial one, an element
        with `n` contributions is sent `n − 1` times until it is whole, and once for every other device that needs it.
        """
        if state.partial:
            return self.final + self.devices * (self.count(state.partial) - 2)
        if not state.permuted:
            return self.final
        parts = 1
        for dim, want in enumerate(self.problem.target):
            have, same = state.layout[dim], self.matched(state.layout, dim)
            if same < len(have) and same < len(want):
                return self.final
            parts *= max(self.count(have), self.counts[dim])
        return self.final - self.scale // parts

    def done(self, state: _State) -> bool:
        """Whether `state` is the target."""
        return state.permuted and not state.partial and state.layout == self.problem.target

    def count(self, atoms: Atoms) -> int:
        """Into how many shards `atoms` split."""
        known = self.products.get(atoms)
        if known is None:
            known = self.products[atoms] = math.prod([self.sizes[atom] for atom in atoms])
        return known

    def local(self, layout: Layout) -> int:
        """What a device holds."""
        parts = 1
        for atoms in layout:
            parts *= self.count(atoms)
        return self.scale // parts

    def matched(self, layout: Layout, dim: int) -> int:
        """How many atoms of `dim` are in their final place. No step takes them away again, except a permute."""
        length = 0
        for have, want in zip(layout[dim], self.problem.target[dim], strict=False):
            if have != want:
                break
            length += 1
        return length

    def fits(self, layout: Layout, dim: int, atoms: Atoms) -> bool:
        """Whether `dim` can be split by `atoms` as well."""
        return self.problem.lengths[dim] % (self.count(layout[dim]) * self.count(atoms)) == 0

    def edges(self, state: _State) -> Iterator[_Edge]:
        """Every step worth taking."""
        held = self.local(state.layout)
        yield from self.slices(state)
        yield from self.exchanges(state, held)
        if state.partial:
            yield from self.reductions(state, held)
        else:
            yield from self.permutes(state, held)
        yield from self.gathers(state, held)

    def slices(self, state: _State) -> Iterator[_Edge]:
        """Appends one unused atom to a dimension, at no cost."""
        layout = state.layout
        used = {atom for atoms in layout for atom in atoms}.union(state.partial)
        clashing = 0
        for atom in used:
            clashing |= self.problem.clashes[atom]
        for atom in range(len(self.sizes)):
            if atom in used or clashing >> atom & 1:
                continue
            for dim in range(len(layout)):
                if self.fits(layout, dim, (atom,)):
                    after = _replaced(layout, {dim: (*layout[dim], atom)})
                    yield _Edge(0, SLICE, _State(after, state.partial, state.permuted, ""))

    def gathers(self, state: _State, held: int) -> Iterator[_Edge]:
        """Takes the last atom of a dimension away; gathers in a row are one collective that sends the same."""
        for dim, atoms in enumerate(state.layout):
            if len(atoms) > self.matched(state.layout, dim):
                after = _replaced(state.layout, {dim: atoms[:-1]})
                sent = held * (self.sizes[atoms[-1]] - 1)
                yield _Edge(sent, GATHER, _State(after, state.partial, state.permuted, GATHER))

    def exchanges(self, state: _State, held: int) -> Iterator[_Edge]:
        """Moves the last atoms of some dimensions to the ends of others, all at once."""
        layout = state.layout
        movable = tuple(len(atoms) - self.matched(layout, dim) for dim, atoms in enumerate(layout))
        for after, group in self.exchanged(layout, movable):
            sent = held // group * (group - 1)
            yield _Edge(sent, EXCHANGE, _State(after, state.partial, state.permuted, ""))

    def exchanged(self, layout: Layout, movable: tuple[int, ...]) -> Iterator[tuple[Layout, int]]:
        """What one all_to_all makes of `layout`, and among how many devices; `movable` atoms of each dimension."""
        for moves in self.moves(layout, movable, 0, frozenset()):
            changed: dict[int, Atoms] = {}
            group = 1
            for source, target, length in moves:
                moved = layout[source][-length:]
                group *= self.count(moved)
                changed[source] = layout[source][:-length]
                changed[target] = layout[target] + moved
            if moves:
                yield _replaced(layout, changed), group

    def moves(
        self, layout: Layout, movable: tuple[int, ...], first: int, taken: frozenset[int]
    ) -> Iterator[tuple[tuple[int, int, int], ...]]:
        """Every set of `(source, target, how many atoms)` from dimension `first` on, no dimension named twice."""
        if first == len(layout):
            yield ()
            return
        yield from self.moves(layout, movable, first + 1, taken)
        if first in taken:
            return
        for target in range(len(layout)):
            if target == first or target in taken:
                continue
            for length in range(1, movable[first] + 1):
                if not self.fits(layout, target, layout[first][-length:]):
                    continue
                for rest in self.moves(layout, movable, first + 1, taken | {first, target}):
                    yield ((first, target, length), *rest)

    def permutes(self, state: _State, held: int) -> Iterator[_Edge]:
        """Permutes to the target, to what becomes the target by gathering, or to what does by an all_to_all.

        One permute is enough, and best last or before the last all_gather (Rink et al., "Memory-efficient array
        redistribution through portable collective communication"). An all_to_all can follow only because axes are
        not numbers: of a dimension split by 2 and then 3, no 2 can be moved away, but it can after a permute.
        """
        for after in self.permuted(tuple(map(self.count, state.layout))):
            if after != state.layout or not state.permuted:
                yield _Edge(held, PERMUTE, _State(after, (), True, ""))

    def permuted(self, counts: tuple[int, ...]) -> Iterator[Layout]:
        """The layouts of `counts` shards per dimension that a permute should lead to."""
        if all(have % want == 0 for have, want in zip(counts, self.counts, strict=True)):
            extra = tuple(have // want for have, want in zip(counts, self.counts, strict=True))
            filled = self.fill(extra, self.spare)
            if filled is not None:
                yield tuple(want + more for want, more in zip(self.problem.target, filled, strict=True))
        yield from self.before_target.get(counts, ())

    @cached_property
    def before_target(self) -> dict[tuple[int, ...], list[Layout]]:
        """Shard counts → layouts of these that may lead to the target by all_to_all and all_gather."""
        found: dict[tuple[int, ...], list[Layout]] = {}
        if len(set(self.sizes)) == 1:
            return found
        for wider in self.wider(self.problem.target, self.spare):
            for layout, _ in self.exchanged(wider, tuple(map(len, wider))):
                found.setdefault(tuple(map(self.count, layout)), []).append(layout)
        return found

    def wider(self, layout: Layout, spare: frozenset[int]) -> Iterator[Layout]:
        """`layout`, and `layout` with some of `spare` appended."""
        yield layout
        for atom in spare:
            if len(self.sizes) > _FEW or self.problem.clashes[atom]:
                continue
            for dim in range(len(layout)):
                if self.fits(layout, dim, (atom,)):
                    yield from self.wider(_replaced(layout, {dim: (*layout[dim], atom)}), spare - {atom})

    def fill(self, extra: tuple[int, ...], spare: frozenset[int]) -> Layout | None:
        """Atoms of `spare` for each dimension, of the given products, if there are such."""
        dim = next((dim for dim, count in enumerate(extra) if count > 1), None)
        if dim is None:
            return ((),) * len(extra)
        for atom in sorted(spare):
            if extra[dim] % self.sizes[atom] or self.problem.clashes[atom]:
                continue
            less = (*extra[:dim], extra[dim] // self.sizes[atom], *extra[dim + 1 :])
            rest = self.fill(less, spare - {atom})
            if rest is not None:
                return _replaced(rest, {dim: (atom, *rest[dim])})
        return None

    def reductions(self, state: _State, held: int) -> Iterator[_Edge]:
        """Combines along all atoms of the kind whose turn it is, or along one, scattering the result."""
        turn = max(self.kind_of[atom] for atom in state.partial)
        ready = tuple(atom for atom in state.partial if self.kind_of[atom] == turn)
        rest = tuple(atom for atom in state.partial if atom not in ready)
        group = self.count(ready)
        yield _Edge(2 * held // group * (group - 1), REDUCE, _State(state.layout, rest, state.permuted, ""))
        for atom in ready:
            size, left = self.sizes[atom], tuple(other for other in state.partial if other != atom)
            for dim in range(len(state.layout)):
                if self.fits(state.layout, dim, (atom,)):
                    after = _replaced(state.layout, {dim: (*state.layout[dim], atom)})
                    sent = held // size * (size - 1)
                    yield _Edge(sent, SCATTER, _State(after, left, state.permuted, f"{SCATTER}{turn}"))


def _replaced(layout: Layout, changed: dict[int, Atoms]) -> Layout:
    return tuple(changed.get(dim, atoms) for dim, atoms in enumerate(layout))
