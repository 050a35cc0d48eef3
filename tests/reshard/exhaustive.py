"""The least that must be sent between layouts, by looking at every chain of every step."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from shardwright.steps import MOST_PARTS

Layout = tuple[tuple[int, ...], ...]
State = tuple[Layout, frozenset[int]]


class Exhaustive:
    """All layouts of atoms of `sizes` on dimensions of `shape`, each atom in a dimension, partial or unused."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        shape: tuple[int, ...],
        over: Callable[[str, tuple[int, ...]], Fraction] | None = None,
    ) -> None:
        """With `over`, what a collective of a kind along some atoms sends counts as much."""
        self.sizes, self.shape, self.over = sizes, shape, over
        self.scale = math.prod(sizes) ** 2 * (1 if over is None else 2520 * 11 * 13)
        self.remembered: dict[State, list[tuple[int, int, State, int]]] = {}
        self.by_counts: dict[tuple[int, ...], list[Layout]] = {}
        for layout in self.layouts():
            self.by_counts.setdefault(self.counts(layout), []).append(layout)

    def layouts(self) -> Iterator[Layout]:
        rank = len(self.shape)
        for used in range(len(self.sizes) + 1):
            for order in itertools.permutations(range(len(self.sizes)), used):
                for cuts in itertools.combinations_with_replacement(range(used + 1), rank - 1):
                    ends = (0, *cuts, used)
                    layout = tuple(order[a:b] for a, b in itertools.pairwise(ends))
                    if self.fits(layout):
                        yield layout

    def count(self, atoms: tuple[int, ...]) -> int:
        return math.prod(self.sizes[atom] for atom in atoms)

    def counts(self, layout: Layout) -> tuple[int, ...]:
        return tuple(map(self.count, layout))

    def fits(self, layout: Layout) -> bool:
        return all(size % self.count(atoms) == 0 for size, atoms in zip(self.shape, layout, strict=True))

    def least(
        self, source: State, start: Fraction = Fraction(1, 1 << 40), most: int | None = None
    ) -> dict[State, tuple[Fraction, int]]:
        """State → (elements sent by each device, collectives) of the cheapest chain from `source` there.

        A collective more is worth `start` elements; no device may hold more than `most` elements on the way.
        """
        # prices are whole numbers, in parts of `scale` and of the start's denominator: millions of them are compared
        each, part = start.numerator * self.scale, start.denominator
        limit = math.inf if most is None else most * self.scale
        best: dict[State, tuple[int, int, int]] = {source: (0, 0, 0)}
        queue = [(0, 0, source)]
        for serial in itertools.count(1):
            if not queue:
                return {state: (Fraction(sent, self.scale), number) for state, (_, sent, number) in best.items()}
            price, _, state = heapq.heappop(queue)
            known, sent, number = best[state]
            if known != price:
                continue
            for step, (more, starts, after, held) in enumerate(self.best_steps(state)):
                reached = price + more * part + starts * each
                if held <= limit and (after not in best or reached < best[after][0]):
                    best[after] = reached, sent + more, number + starts
                    heapq.heappush(queue, (reached, serial * 100_000 + step, after))
        raise AssertionError

    def frontiers(self, source: State, most: Fraction, starts: int = 8) -> list[dict[State, Fraction]]:
        """By the number of collectives, up to `starts`: state → the least elements that each device sends to get there.

        No device may hold more than `most` elements on the way.
        """
        layers: list[dict[State, int]] = [{} for _ in range(starts + 1)]
        layers[0][source] = 0
        limit = int(most * self.scale)
        for number, layer in enumerate(layers):
            queue = list(layer)
            while queue:
                state = queue.pop()
                for sent, more, after, held in self.best_steps(state):
                    if number + more > starts or held > limit:
                        continue
                    reached, known = layer[state] + sent, layers[number + more].get(after)
                    if known is None or reached < known:
                        layers[number + more][after] = reached
                        if not more:
                            queue.append(after)
        return [{state: Fraction(sent, self.scale) for state, sent in layer.items()} for layer in layers]

    def best_steps(self, state: State) -> list[tuple[int, int, State, int]]:
        """Of all `steps` those that send least: how much, and what is held then, both in parts of `scale` of an element."""
        known = self.remembered.get(state)
        if known is None:
            best: dict[tuple[int, State], Fraction] = {}
            for sent, more, after in self.steps(state):
                if after != state and sent <= best.get((more, after), sent):
                    best[more, after] = sent
            known = self.remembered[state] = [
                (int(sent * self.scale), more, after, int(self.held(after[0]) * self.scale))
                for (more, after), sent in best.items()
            ]
        return known

    def steps(self, state: State) -> Iterator[tuple[Fraction, int, State]]:
        yield from self.permutes(state)
        yield from self.other_steps(state)

    def permutes(self, state: State) -> Iterator[tuple[Fraction, int, State]]:
        layout, partial = state
        held = self.held(layout)
        for after in self.by_counts[self.counts(layout)]:
            if partial.isdisjoint(itertools.chain(*after)):
                yield (
                    self.weighed("collective_permute", _moved(layout, after), held),
                    int(after != layout),
                    (after, partial),
                )
        for after, parts in self.in_parts(layout):
            if partial.isdisjoint(itertools.chain(*after)):
                yield self.weighed("collective_permute", _moved(layout, after), held), parts, (after, partial)

    def weighed(self, kind: str, atoms: Iterable[int], sent: Fraction) -> Fraction:
        """What counts of what is sent in a collective along some atoms."""
        atoms = tuple(atoms)
        return sent if self.over is None or not atoms else sent * self.over(kind, atoms)

    def other_steps(self, state: State) -> Iterator[tuple[Fraction, int, State]]:
        layout, partial = state
        held = self.held(layout)
        free = [a for a in range(len(self.sizes)) if a not in partial and a not in set(itertools.chain(*layout))]
        for atom in free:
            yield from ((Fraction(0), 0, (grown, partial)) for grown in self.grown(layout, (atom,)))
        for lengths in itertools.product(*(range(len(atoms) + 1) for atoms in layout)):
            after = tuple(atoms[: len(atoms) - n] for atoms, n in zip(layout, lengths, strict=True))
            if self.over is None or _changed(layout, after) == 1:  # others by one dimension after the other
                sent = self.weighed("all_gather", _gone(layout, after), self.held(after) - held)
                yield sent, _changed(layout, after), (after, partial)
        for after, group in self.exchanges(layout):
            yield self.weighed("all_to_all", _gone(layout, after), held * (group - 1) / group), 1, (after, partial)
        for size in range(1, len(partial) + 1):
            for reduced in itertools.permutations(sorted(partial), size):
                group = self.count(reduced)
                rest = partial.difference(reduced)
                sent = self.weighed("all_reduce", reduced, held * (group - 1) / group)
                yield 2 * sent, 1, (layout, rest)
                for after in self.grown(layout, reduced):
                    if self.over is None or _changed(layout, after) == 1:
                        yield sent, _changed(layout, after), (after, rest)

    def in_parts(self, layout: Layout) -> Iterator[tuple[Layout, int]]:
        """All layouts that a permute in parts leads to, and in how many."""
        counts = self.counts(layout)
        for others, layouts in self.by_counts.items():
            if math.prod(others) == math.prod(counts):
                parts = math.prod(a // math.gcd(a, b) for a, b in zip(counts, others, strict=True))
                if 1 < parts <= MOST_PARTS:
                    yield from ((after, parts) for after in layouts)

    def held(self, layout: Layout) -> Fraction:
        return Fraction(math.prod(self.shape), math.prod(self.counts(layout)))

    def grown(self, layout: Layout, atoms: tuple[int, ...]) -> Iterator[Layout]:
        """`layout` with each of `atoms` appended somewhere."""
        if not atoms:
            yield layout
            return
        for dim in range(len(layout)):
            after = tuple((*have, atoms[0]) if index == dim else have for index, have in enumerate(layout))
            if self.fits(after):
                yield from self.grown(after, atoms[1:])

    def exchanges(self, layout: Layout) -> Iterator[tuple[Layout, int]]:
        """All ways to move atoms from the ends of some dimensions to those of others, and the group's size."""
        for lengths in itertools.product(*(range(len(atoms) + 1) for atoms in layout)):
            left = tuple(atoms[: len(atoms) - n] for atoms, n in zip(layout, lengths, strict=True))
            moved = tuple(itertools.chain(*(atoms[len(atoms) - n :] for atoms, n in zip(layout, lengths, strict=True))))
            takers = [dim for dim, given in enumerate(lengths) if not given]
            if not moved or not takers:
                continue
            for order in itertools.permutations(moved):
                for cuts in itertools.combinations_with_replacement(range(len(moved) + 1), len(takers) - 1):
                    arriving = dict(zip(takers, itertools.pairwise((0, *cuts, len(moved))), strict=True))
                    after = tuple(
                        [
                            (*atoms, *order[slice(*arriving[dim])]) if dim in arriving else atoms
                            for dim, atoms in enumerate(left)
                        ]
                    )
                    if self.fits(after):
                        yield after, self.count(moved)


def _changed(before: Layout, after: Layout) -> int:
    """The dimensions that differ: each is a collective of the per-device program."""
    return sum(old != new for old, new in zip(before, after, strict=True))


def _gone(before: Layout, after: Layout) -> tuple[int, ...]:
    """The atoms that leave the ends of dimensions."""
    return tuple(atom for old, new in zip(before, after, strict=True) for atom in old[len(new) :])


def _moved(before: Layout, after: Layout) -> tuple[int, ...]:
    """The atoms that come to split something else, or at another place."""
    moved: list[int] = []
    for old, new in zip(before, after, strict=True):
        same = next(
            (at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
        )
        moved += [*old[same:], *new[same:]]
    return tuple(dict.fromkeys(moved))
