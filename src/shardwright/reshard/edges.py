"""The graph that a search runs through: layouts of atoms, and the edges that lead from one to the next.

What a device holds and sends are exact integers, in units of an unsharded buffer divided by `scale`. Steps are counted
as the collectives of the per-device program that they become: gathers of one dimension in a row are one, gathers of two
dimensions two. Which kinds of edges there are, and what no chain of them goes below, is told in this file alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from shardwright.memo import memoize, once
from shardwright.reshard.atoms import (
    EXCHANGE,
    GATHER,
    PERMUTE,
    REDUCE,
    SCATTER,
    SLICE,
    Atoms,
    Edge,
    Layout,
    Problem,
    SearchState,
)
from shardwright.reshard.busiest import UNIT, Busiest
from shardwright.reshard.exchanges import Exchanges
from shardwright.reshard.farther import Farther
from shardwright.steps import MOST_PARTS, parts_between

__all__ = ["Edges", "Ways"]

_FEWER = 3
"""Up to so many atoms, all permutes are tried on a torus that may come before an all_to_all, or gather alike."""

_FEW = 4
"""Up to this many atoms, or two to gather, every layout that all_gather makes the target is tried as the way there."""


class Ways:
    """Steps of one kind from one state, made when they are first asked for.

    Attributes:
        least: What each of them and all after it send at least.
    """

    def __init__(self, least: int, listed: Iterator[Edge]) -> None:
        """Remember how they are made."""
        self.least, self._listed = least, listed

    @once
    def edges(self) -> tuple[Edge, ...]:
        """The steps."""
        return tuple(self._listed)


class Edges:
    """What one step leads to, for the states of one problem."""

    def __init__(self, problem: Problem) -> None:
        """Count what does not depend on the state."""
        self.problem = problem
        self.all_to_alls = Exchanges(problem)
        self.sizes = problem.sizes
        self.ways: dict[SearchState, tuple[Ways, ...]] = {}
        self.products: dict[Atoms, int] = {}
        self.locals: dict[Layout, int] = {}
        self.prefixes: list[dict[Atoms, int]] = [{} for _ in problem.target]
        self.unions: list[dict[Atoms, int]] = [{} for _ in problem.target]
        self.devices = math.prod(problem.sizes)
        self.scale = self.devices**2
        self.counts = tuple(map(self.count, problem.target))
        self.final = self.local(problem.target)
        self.kind_of = dict(zip(problem.partial, problem.kinds, strict=True))
        self.far = Farther(problem)
        self.over = Busiest(problem) if problem.lines else None
        self.bounds: dict[tuple[Layout, Atoms, bool], int] = {}
        self.unit = UNIT if self.over else 1
        self.is_alike = not (self.far or self.over)  # whether a byte takes as long wherever it goes

    @once
    def tries_all(self) -> bool:
        """Whether permutes are tried that lead to what sends as much, since that may take longer or not."""
        return self.over is not None and len(self.sizes) <= _FEWER and self.over.tells_atoms_apart

    def count(self, atoms: Atoms) -> int:
        """Into how many shards `atoms` split."""
        known = self.products.get(atoms)
        if known is None:
            known = self.products[atoms] = math.prod([self.sizes[atom] for atom in atoms])
        return known

    def local(self, layout: Layout) -> int:
        """What a device holds."""
        known = self.locals.get(layout)
        if known is None:
            known = self.locals[layout] = self.scale // math.prod([self.count(atoms) for atoms in layout])
        return known

    @once
    def moves_all(self) -> bool:
        """Whether what is in its final place may be moved away, as where both sides begin alike."""
        pairs = zip(self.problem.source, self.problem.target, strict=True)
        return any(old[:1] == new[:1] != () for old, new in pairs)

    def movable(self, layout: Layout, dim: int) -> int:
        """How many atoms of `dim` are taken away: those that are not in their final place, except by a permute."""
        return len(layout[dim]) - (0 if self.moves_all else self.matched(layout, dim))

    def matched(self, layout: Layout, dim: int) -> int:
        """How many atoms of `dim` are in their final place."""
        atoms = layout[dim]
        known = self.prefixes[dim].get(atoms)
        if known is None:
            pairs = zip(atoms, self.problem.target[dim], strict=False)
            known = next((place for place, (have, goal) in enumerate(pairs) if have != goal), None)
            if known is None:
                known = min(len(atoms), len(self.problem.target[dim]))
            self.prefixes[dim][atoms] = known
        return known

    def union(self, layout: Layout, dim: int) -> int:
        """Into how many shards `dim` is split where it is split by its atoms and by its final ones.

        0 where neither are the beginning of the other: there are shards that have nothing in common then. What parts of
        one axis have in common that cannot be used together is counted as all.
        """
        atoms = layout[dim]
        known = self.unions[dim].get(atoms)
        if known is None:
            place, goal = self.matched(layout, dim), self.problem.target[dim]
            apart = place < min(len(atoms), len(goal)) and not self.problem.clashes[atoms[place]] >> goal[place] & 1
            known = self.unions[dim][atoms] = 0 if apart else max(self.count(atoms), self.counts[dim])
        return known

    def fits(self, layout: Layout, dim: int, atoms: Atoms) -> bool:
        """Whether `dim` can be split by `atoms` as well."""
        return self.problem.lengths[dim] % (self.count(layout[dim]) * self.count(atoms)) == 0

    def to_send(self, state: SearchState) -> int:
        """What a device must send at least; on a torus, what goes over its busiest link, in parts of `unit`."""
        place = state.layout, state.partial, state.permuted
        known = self.bounds.get(place)
        if known is None:
            sent = self._to_send(state)
            known = self.bounds[place] = self.over.to_send(state, sent) if self.over else sent
        return known

    def _to_send(self, state: SearchState) -> int:
        """What a device must receive at least, and so, as all do alike, send.

        Of a reduced tensor, what the device that holds the least of its final part lacks. Of a partial one, an element
        with `n` contributions is sent `n − 1` times until it is whole, and once for every other device that needs it.
        """
        far = self.far.to_send(state.layout, state.partial)
        if state.partial:
            return far + self.final + self.devices * (self.count(state.partial) - 2)
        if not state.permuted:
            return far + self.final
        parts = math.prod([self.union(state.layout, dim) for dim in range(len(state.layout))])
        return far + (self.final - self.scale // parts if parts else self.final)

    def to_start(self, state: SearchState) -> int:
        """How many collectives must be started at least.

        Each kind of reduction takes one at least, and what is out of place in a dimension takes another. Where a device
        comes to hold more than it does, that is a gather, which takes from one dimension: two where more are out of
        place. One of them may be part of the run that the state is in.
        """
        kinds = len({self.kind_of[atom] for atom in state.partial})
        misplaced = sum([self.matched(state.layout, dim) < len(atoms) for dim, atoms in enumerate(state.layout)])
        misplaced += not state.permuted
        moves = min(misplaced, 2 if self.local(state.layout) < self.final else 1)
        return max(0, kinds + moves - (state.run != ""))

    def leaving(self, state: SearchState) -> tuple[Ways, ...]:
        """Every step worth taking, by kind; searches of one problem ask several times."""
        known = self.ways.get(state)
        if known is None:
            known = self.ways[state] = tuple(self.listed(state))
        return known

    def listed(self, state: SearchState) -> Iterator[Ways]:
        """The same, as they are found."""
        held = self.local(state.layout)
        lacking = math.floor(self.over.fastest * max(0, self.final - held)) if self.over else max(0, self.final - held)
        yield Ways(0, self.slices(state))
        yield from self.exchanges(state, held, lacking)
        if state.partial:
            yield Ways(0, self.reductions(state, held))
        else:
            yield Ways(self.unit * held + lacking, self.permutes(state, held))
            if state.permuted and not self.problem.named and (not self.over or len(self.sizes) <= _FEW):
                yield Ways(self.unit * held + lacking, self.permutes_in_parts(state, held))
        yield Ways(0, self.gathers(state, held))

    def slices(self, state: SearchState) -> Iterator[Edge]:
        """Appends one unused atom to a dimension, at no cost."""
        layout = state.layout
        used = {atom for atoms in layout for atom in atoms}.union(state.partial)
        clashing = self.clashing(used)
        for atom in range(len(self.sizes)):
            if atom in used or clashing >> atom & 1:
                continue
            for dim in range(len(layout)):
                if self.fits(layout, dim, (atom,)):
                    after = _replaced(layout, {dim: (*layout[dim], atom)})
                    yield Edge(0, 0, SLICE, SearchState(after, state.partial, state.permuted, ""))

    def gathers(self, state: SearchState, held: int) -> Iterator[Edge]:
        """Takes the last atom of a dimension away; in a row, gathers are taken dimension by dimension."""
        for dim, atoms in enumerate(state.layout):
            run = f"{GATHER} {dim:02}"
            movable = self.movable(state.layout, dim)
            if not movable or (state.run.startswith(GATHER) and run < state.run and self.is_alike):
                continue
            for many in range(1, 1 + (1 if self.is_alike else movable)):
                after, gone = _replaced(state.layout, {dim: atoms[:-many]}), atoms[-many:]
                sent = self.weighed(GATHER, gone, held * (self.count(gone) - 1)) + self.far.of_gather(held, gone)
                there = SearchState(after, state.partial, state.permuted, self.begun(run))
                yield Edge(sent, 0 if run == state.run else 1, GATHER, there)

    def begun(self, run: str) -> str:
        """A run that steps go on with, no collective more; on a torus each is by itself: the next might go over other
        links.
        """
        return "" if self.over else run

    def weighed(self, kind: str, atoms: Atoms, sent: int) -> int:
        """What a step along some atoms that sends so much takes."""
        return sent if self.over is None else self.over.weighed(kind, atoms, sent)

    def exchanges(self, state: SearchState, held: int, lacking: int) -> Iterator[Ways]:
        """Moves the last atoms of some dimensions to the ends of others, all at once."""
        movable = [self.movable(state.layout, dim) for dim in range(len(state.layout))]
        for moved, layouts in self.all_to_alls.of(state.layout, movable):
            sent = held - held // self.count(moved)
            sent = self.weighed(EXCHANGE, moved, sent) + self.far.of_exchange(held, moved)
            yield Ways(sent + lacking, self.exchanged(state, sent, layouts))

    def exchanged(self, state: SearchState, sent: int, layouts: Iterable[Layout]) -> Iterator[Edge]:
        """An all_to_all that sends so much, to each of some layouts."""
        for after in layouts:
            if not self.problem.named or _names_once(state.layout, after):
                yield Edge(sent, 1, EXCHANGE, SearchState(after, state.partial, state.permuted, ""))

    def permutes(self, state: SearchState, held: int) -> Iterator[Edge]:
        """Permutes to the target, to what becomes the target by gathering, or to what does by an all_to_all.

        One permute is enough, and best last or before the last all_gather (Rink et al., "Memory-efficient array
        redistribution through portable collective communication"). An all_to_all can follow only because axes are
        not numbers: of a dimension split by 2 and then 3, no 2 can be moved away, but it can after a permute.
        """
        for after in self.permuted(tuple(map(self.count, state.layout))):
            if after != state.layout or not state.permuted:
                yield self.permute(state, held, after)

    def permute(self, state: SearchState, held: int, after: Layout, parts: int = 1) -> Edge:
        """A permute of so many parts."""
        sent = held + self.far.of_permute(held, state.layout, after)
        if self.over:
            sent = self.over.handed_on(state, after, held)
        return Edge(sent, parts, PERMUTE, SearchState(after, (), True, ""))

    def permutes_in_parts(self, state: SearchState, held: int) -> Iterator[Edge]:
        """Permutes where a dimension changes its number of shards: as many collectives as parts are handed over."""
        counts = tuple(map(self.count, state.layout))
        for goal, layouts in self.by_held.get(held, {}).items():
            pairs = tuple(zip(counts, goal, strict=True))
            if 1 < parts_between(pairs) <= MOST_PARTS:
                for after in layouts:
                    yield self.permute(state, held, after, parts_between(pairs))

    @once
    def by_held(self) -> dict[int, dict[tuple[int, ...], list[Layout]]]:
        """What a device holds → shard counts → layouts of these that may lead to the target without a permute."""
        found: dict[int, dict[tuple[int, ...], list[Layout]]] = {}
        ways = [*self.wider(self.problem.target, self.beside_target), *itertools.chain(*self.before_target.values())]
        for layout in dict.fromkeys(ways):
            of_size = found.setdefault(self.local(layout), {})
            of_size.setdefault(tuple(map(self.count, layout)), []).append(layout)
        return found

    def permuted(self, counts: tuple[int, ...]) -> Iterator[Layout]:
        """The layouts of `counts` shards per dimension that a permute should lead to."""
        if all(have % goal == 0 for have, goal in zip(counts, self.counts, strict=True)):
            extra = tuple(have // goal for have, goal in zip(counts, self.counts, strict=True))
            most = None if self.tries_all else 1
            for filled in itertools.islice(self.fillings(extra, self.beside_target), most):
                yield tuple([goal + more for goal, more in zip(self.problem.target, filled, strict=True)])
        yield from self.before_target.get(counts, ())

    @once
    def before_target(self) -> Mapping[tuple[int, ...], tuple[Layout, ...]]:
        """Shard counts → layouts of these that may lead to the target by all_to_all and all_gather."""
        if len(set(self.sizes)) == 1 and not self.tries_all:
            return {}
        of, target = self.problem, self.problem.target
        return _before(Problem(of.sizes, of.lengths, target, target, (), (), of.clashes, permute=False))

    def wider(self, layout: Layout, spare: frozenset[int]) -> Iterator[Layout]:
        """`layout`, and `layout` with some of `spare` appended, each of which can be in use together with it."""
        yield layout
        if len(self.sizes) > _FEW and len(self.beside_target) > 2:
            return
        for atom in spare:
            for dim in range(len(layout)):
                if self.fits(layout, dim, (atom,)):
                    wider = _replaced(layout, {dim: (*layout[dim], atom)})
                    yield from self.wider(wider, self.beside(atom, spare))

    def clashing(self, atoms: Iterable[int]) -> int:
        """The set (as bits) of atoms that cannot be in use together with some of `atoms`."""
        clashing = 0
        for atom in atoms:
            clashing |= self.problem.clashes[atom]
        return clashing

    def beside(self, atom: int, others: frozenset[int]) -> frozenset[int]:
        """Those of `others` that can be in use together with an atom of them, which is left out."""
        clashing = self.problem.clashes[atom]
        return frozenset([other for other in others if other != atom and not clashing >> other & 1])

    @once
    def beside_target(self) -> frozenset[int]:
        """The atoms that the target does not use, and that can be in use together with those that it does."""
        used = tuple(itertools.chain(*self.problem.target))
        clashing = self.clashing(used)
        return frozenset([atom for atom in range(len(self.sizes)) if atom not in used and not clashing >> atom & 1])

    def fillings(self, extra: tuple[int, ...], spare: frozenset[int]) -> Iterator[Layout]:
        """Atoms of `spare` for each dimension, of the given products: all ways, any of which sends as much."""
        dim = next((dim for dim, count in enumerate(extra) if count > 1), None)
        if dim is None:
            yield ((),) * len(extra)
            return
        for atom in sorted(spare):
            if extra[dim] % self.sizes[atom] == 0:
                less = (*extra[:dim], extra[dim] // self.sizes[atom], *extra[dim + 1 :])
                for rest in self.fillings(less, self.beside(atom, spare)):
                    yield _replaced(rest, {dim: (atom, *rest[dim])})

    def reductions(self, state: SearchState, held: int) -> Iterator[Edge]:
        """Combines along all atoms of the kind whose turn it is, or along one, scattering the result."""
        turn = max(self.kind_of[atom] for atom in state.partial)
        ready = tuple(atom for atom in state.partial if self.kind_of[atom] == turn)
        rest = tuple(atom for atom in state.partial if atom not in ready)
        group = self.count(ready)
        by_hand = turn in self.problem.by_hand
        sent = held * (group - 1) if by_hand else 2 * held // group * (group - 1)
        sent = self.weighed(REDUCE, ready, sent)
        sent += self.far.of_gather(held if by_hand else 2 * held // group, ready)
        yield Edge(sent, 1, REDUCE, SearchState(state.layout, rest, state.permuted, ""))
        for atoms in self.over.together(ready) if self.over else self.far.together(ready):
            size, left = self.count(atoms), tuple(other for other in state.partial if other not in atoms)
            for dim in range(len(state.layout)):
                if self.fits(state.layout, dim, atoms):
                    after = _replaced(state.layout, {dim: (*state.layout[dim], *atoms)})
                    sent = self.weighed(SCATTER, atoms, held // size * (size - 1))
                    sent += self.far.of_gather(held // size, atoms)
                    run = f"{SCATTER} {turn} {dim:02}"
                    there = SearchState(after, left, state.permuted, self.begun(run))
                    yield Edge(sent, 0 if run == state.run else 1, SCATTER, there)


@memoize
def _before(problem: Problem) -> dict[tuple[int, ...], tuple[Layout, ...]]:
    """As of `Edges.before_target`, each once, of a problem of which nothing but its target is read: many share one."""
    edges, found = Edges(problem), dict[tuple[int, ...], dict[Layout, None]]()
    for wider in dict.fromkeys(edges.wider(problem.target, edges.beside_target)):
        exchanged = edges.all_to_alls.of(wider, tuple(map(len, wider)))
        for layout in itertools.chain.from_iterable([layouts for _, layouts in exchanged]):
            found.setdefault(tuple(map(edges.count, layout)), {})[layout] = None
    return {counts: tuple(layouts) for counts, layouts in found.items()}


def _names_once(before: Layout, after: Layout) -> bool:
    """Whether an all_to_all brings to each dimension what one other gives, as it was there."""
    pairs = tuple(zip(before, after, strict=True))
    return sorted([old[len(new) :] for old, new in pairs]) == sorted([new[len(old) :] for old, new in pairs])


def _replaced(layout: Layout, changed: dict[int, Atoms]) -> Layout:
    return tuple(changed.get(dim, atoms) for dim, atoms in enumerate(layout))
