"""What must cross a cut: devices stand on several sides of it, as many on each, and no side has all that it needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from shardwright.reshard.atoms import Atoms, Layout, Problem

__all__ = ["Cut"]


class Cut:
    """Sides of a cut, told by the atoms along which devices are on different ones; in the units of `Edges.local`."""

    def __init__(self, problem: Problem, sides: dict[int, int]) -> None:
        """Count what does not depend on a step.

        Arguments:
            problem: What is to be done.
            sides: On how many sides devices along an atom are, of those along which they are on several.
        """
        self.problem, self.sides = problem, sides
        self.devices = math.prod(problem.sizes)
        self.target = self.places(problem.target)
        self.needed = self.devices * self.across(sides) // self.across(itertools.chain(*problem.target))
        """What each device of a side receives at least where the side has nothing of what it needs."""

    def across(self, atoms: Iterable[int]) -> int:
        """On how many sides devices along these atoms are."""
        return math.prod([self.sides[atom] for atom in atoms if atom in self.sides])

    def places(self, layout: Layout) -> set[tuple[int, int, int]]:
        """Which atoms of different sides split what: a dimension, below so many parts."""
        found = set[tuple[int, int, int]]()
        for dim, atoms in enumerate(layout):
            parts = 1
            for atom in atoms:
                if atom in self.sides:
                    found.add((atom, dim, parts))
                parts *= self.problem.sizes[atom]
        return found

    def to_cross(self, layout: Layout, partial: Atoms) -> int:
        """What each device must get across at least from a state on: `Edges.to_send`, of sides in place of devices."""
        contributions = self.across(partial)
        if contributions > 1:
            return self.needed + self.devices * (contributions - 2)
        misplaced = self.across([atom for atom, *_ in self.places(layout) - self.target])
        return self.needed - self.needed // misplaced
