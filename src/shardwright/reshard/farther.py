"""What steps send to other nodes, counted as the bytes more that it takes: see `cost.nodes`.

Nothing where devices along all atoms are of one node, or of different ones: bytes are worth the same then.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from shardwright.reshard.atoms import Atoms, Layout, Problem
from shardwright.reshard.cuts import Cut

__all__ = ["Farther"]


class Farther:
    """What counts more of the steps of one problem, in the units of `Edges.local`; false where nothing does."""

    def __init__(self, problem: Problem) -> None:
        """Count what does not depend on a step."""
        self.sizes, self.far, self.farther = problem.sizes, problem.far, problem.farther
        self.cut = Cut(problem, {atom: problem.sizes[atom] for atom in problem.far})

    def __bool__(self) -> bool:
        return bool(self.far)

    def to_send(self, layout: Layout, partial: Atoms) -> int:
        """What must go to other nodes at least from a state on."""
        return self.farther * self.cut.to_cross(layout, partial) if self.far else 0

    def of_gather(self, held: int, atoms: Sequence[int]) -> int:
        """Of a gather along some atoms, or of a reduction of which so much is left."""
        return self.farther * held * (self.cut.across(atoms) - 1) if self.far else 0

    def of_exchange(self, held: int, moved: Atoms) -> int:
        """Of an all_to_all that moves some atoms."""
        if not self.far:
            return 0
        nodes = self.cut.across(moved)
        return self.farther * (held // nodes * (nodes - 1))

    def of_permute(self, held: int, before: Layout, after: Layout) -> int:
        """Of a permute between two layouts: all, where devices of different nodes come to hold otherwise."""
        return self.farther * held if self.far and self.cut.places(before) != self.cut.places(after) else 0

    def together(self, ready: Atoms) -> list[Atoms]:
        """What is scattered along at once: each atom by itself, and those of different nodes with others."""
        alone: list[Atoms] = [(atom,) for atom in ready]
        if not self.far:
            return alone
        every = itertools.chain(*[itertools.permutations(ready, many) for many in range(2, 1 + len(ready))])
        return [*alone, *[atoms for atoms in every if 1 < self.cut.across(atoms) < self._count(atoms)]]

    def _count(self, atoms: Atoms) -> int:
        return math.prod([self.sizes[atom] for atom in atoms])
