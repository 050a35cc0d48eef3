"""What steps send to other nodes, counted as the bytes more that it takes: see `cost.nodes`.

Nothing where devices along all atoms are of one node, or of different ones: bytes are worth the same then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from shardwright.reshard.atoms import Atoms, Layout, Problem

__all__ = ["Farther"]


class Farther:
    """What counts more of the steps of one problem, in the units of `Edges.local`; false where nothing does."""

    def __init__(self, problem: Problem) -> None:
        """Count what does not depend on a step."""
        self.sizes, self.far, self.farther = problem.sizes, problem.far, problem.farther
        self.devices = math.prod(problem.sizes)
        self.places = self._places(problem.target)
        self.nodes = self._nodes(range(len(problem.sizes)))
        self.needed = self.devices * self.nodes // self._nodes(itertools.chain(*problem.target))
        """What each device of a node receives at least where the node has nothing of what it needs."""

    def __bool__(self) -> bool:
        return bool(self.far)

    def _nodes(self, atoms: Iterable[int]) -> int:
        """In how many nodes devices along these atoms are."""
        return math.prod([self.sizes[atom] for atom in atoms if atom in self.far])

    def _places(self, layout: Layout) -> set[tuple[int, int, int]]:
        """Which atoms of different nodes split what: a dimension, below so many parts."""
        found = set[tuple[int, int, int]]()
        for dim, atoms in enumerate(layout):
            parts = 1
            for atom in atoms:
                if atom in self.far:
                    found.add((atom, dim, parts))
                parts *= self.sizes[atom]
        return found

    def to_send(self, layout: Layout, partial: Atoms) -> int:
        """What must go to other nodes at least from a state on: `Edges.to_send`, of nodes in place of devices."""
        if not self.far:
            return 0
        contributions = self._nodes(partial)
        if contributions > 1:
            return self.farther * (self.needed + self.devices * (contributions - 2))
        misplaced = math.prod([self.sizes[atom] for atom, *_ in self._places(layout) - self.places])
        return self.farther * (self.needed - self.needed // misplaced)

    def of_gather(self, held: int, atoms: Sequence[int]) -> int:
        """Of a gather along some atoms, or of a reduction of which so much is left."""
        return self.farther * held * (self._nodes(atoms) - 1) if self.far else 0

    def of_exchange(self, held: int, moved: Atoms) -> int:
        """Of an all_to_all that moves some atoms."""
        if not self.far:
            return 0
        nodes = self._nodes(moved)
        return self.farther * (held // nodes * (nodes - 1))

    def of_permute(self, held: int, before: Layout, after: Layout) -> int:
        """Of a permute between two layouts: all, where devices of different nodes come to hold otherwise."""
        return self.farther * held if self.far and self._places(before) != self._places(after) else 0

    def together(self, ready: Atoms) -> list[Atoms]:
        """What is scattered along at once: each atom by itself, and those of different nodes with others."""
        if not self.far:
            return [(atom,) for atom in ready]
        every = itertools.chain(*[itertools.permutations(ready, many) for many in range(2, 1 + len(ready))])
        return [
            *[(atom,) for atom in ready],
            *[atoms for atoms in every if 1 < self._nodes(atoms) < self._count(atoms)],
        ]

    def _count(self, atoms: Atoms) -> int:
        return math.prod([self.sizes[atom] for atom in atoms])
