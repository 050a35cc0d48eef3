"""Whether any chain of steps sends less than a given one, by looking at every chain that might.

The steps are those of `exhaustive`. A chain is followed no further once what it has sent, and what some device still
lacks of its part of the target, is no less than what is to be beaten.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tests.reshard.exhaustive import Exhaustive, Layout, State

__all__ = ["Pruned"]


class _LayoutsByCounts(dict[tuple[int, ...], list[Layout]]):
    """Shard counts of each dimension → all layouts that have them, listed when first asked for."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.sizes = sizes

    def __missing__(self, counts: tuple[int, ...]) -> list[Layout]:
        self[counts] = list(self._listed(counts, tuple(range(len(self.sizes)))))
        return self[counts]

    def _listed(self, counts: tuple[int, ...], atoms: Sequence[int]) -> Iterator[Layout]:
        if not counts:
            yield ()
            return
        for first in self._orders(counts[0], atoms):
            rest = [atom for atom in atoms if atom not in first]
            yield from ((first, *others) for others in self._listed(counts[1:], rest))

    def _orders(self, count: int, atoms: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if count == 1:
            yield ()
        for atom in atoms if count > 1 else ():
            if count % self.sizes[atom] == 0:
                rest = [other for other in atoms if other != atom]
                yield from ((atom, *others) for others in self._orders(count // self.sizes[atom], rest))


class Pruned(Exhaustive):
    """All chains between two layouts that might beat a given one; nothing is partial."""

    def __init__(self, sizes: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.sizes, self.shape, self.over = sizes, shape, None
        self.scale = math.prod(sizes) ** 2
        self.by_counts = _LayoutsByCounts(sizes)

    def in_parts(self, layout: Layout) -> Iterator[tuple[Layout, int]]:
        """As of `Exhaustive`, the shard counts of all layouts listed first."""
        products = {1}
        for size in self.sizes:
            products |= {product * size for product in products}
        of_dims = [[count for count in sorted(products) if size % count == 0] for size in self.shape]
        shards = math.prod(self.counts(layout))
        for counts in itertools.product(*of_dims):
            if math.prod(counts) == shards:
                self.by_counts[counts]
        yield from super().in_parts(layout)

    def least_between(self, source: Layout, target: Layout, beaten: Fraction) -> Fraction:
        """The elements that each device sends by the chain that sends least, or `beaten` if that is no less."""
        best, serial = {source: Fraction(0)}, itertools.count()
        queue = [(self.lacking(source, target), next(serial), source)]
        while queue:
            bound, _, layout = heapq.heappop(queue)
            if layout == target:
                return best[layout]
            if bound > best[layout] + self.lacking(layout, target):
                continue
            for sent, after in self._promising(layout, target, beaten - best[layout]):
                reached = best[layout] + sent
                if after not in best or reached < best[after]:
                    best[after] = reached
                    heapq.heappush(queue, (reached + self.lacking(after, target), next(serial), after))
        return beaten

    def _promising(self, layout: Layout, target: Layout, beaten: Fraction) -> Iterator[tuple[Fraction, Layout]]:
        """The steps after which less than `beaten` may be sent in all; permutes are many, and often need no look."""
        state: State = layout, frozenset()
        held = self.held(layout)
        permutes = self.permutes(state) if max(held, self.held(target)) < beaten else ()
        for sent, _, (after, _) in itertools.chain(permutes, self.other_steps(state)):
            if after != layout and sent + self.lacking(after, target) < beaten:
                yield sent, after

    def lacking(self, layout: Layout, target: Layout) -> Fraction:
        """The elements that the device with the least of its part of `target` lacks.

        Where of a dimension neither split begins the other, some two shards have nothing in common: all of it. Else the
        further split says how much of its part a device has, of which each has as much.
        """
        shards = 1
        for atoms, goal in zip(layout, target, strict=True):
            shared = min(len(atoms), len(goal))
            if atoms[:shared] != goal[:shared]:
                return self.held(target)
            shards *= max(self.count(atoms), self.count(goal))
        return self.held(target) - Fraction(math.prod(self.shape), shards)
