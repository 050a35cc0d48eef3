"""Where an op finds itself when it is split, and programs whose ops are split as is said for theirs.

Ops of blocks that repeat find themselves in the same situation: what is said of one is said of all.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import NamedTuple

from shardwright.cost.hardware import Hardware
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.assign import cheapest_choices
from shardwright.partition.decisions import Layout
from shardwright.partition.op_split import Split, filled, split_alike, split_as
from shardwright.partition.proposals import Source
from shardwright.partition.ways import Choice

__all__ = ["Exceptions", "Following", "Situation"]


class Situation(NamedTuple):
    """All that the split of an op may depend on; the fields are the arguments of `assign`."""

    signature: Signature
    sources: tuple[Source, ...]
    layouts: tuple[Layout, ...]
    passing: frozenset[int]
    mesh: Mesh
    hardware: Hardware
    unread: frozenset[int]

    def cheapest(self, most: int) -> tuple[Choice, ...]:
        """The cheapest ways to split the op by itself, the cheapest first."""
        targets = filled(self.layouts, self.mesh)
        return cheapest_choices(self.signature, self.sources, targets, self.passing, self.hardware, self.unread, most)

    def as_it_lies(self, most: int) -> Choice | None:
        """The cheapest of so many ways in which each operand is read as it lies, if there is one."""
        for choice in self.cheapest(most):
            pairs = zip(choice.operands, self.sources, strict=True)
            if all(not source or layout in source for layout, source in pairs):
                return choice
        return None

    def split(self) -> Split:
        """As is cheapest for the op by itself."""
        return split_alike(*self)

    def split_as(self, choice: Choice) -> Split:
        """By one of the choices that the op has, for the sake of the program."""
        choice = replace(choice, for_program=True)
        return split_as(choice, self.signature, self.sources, self.layouts, self.mesh)


Exceptions = Mapping[Situation, Choice]
"""How ops are split that are not split as is cheapest for each by itself."""


class Following:
    """How ops are split with some exceptions.

    Attributes:
        exceptions: What is split otherwise than is cheapest for the op by itself.
        met: The situations that ops were in, each once, as first met.
    """

    def __init__(self, exceptions: Exceptions, known: Container[Situation] | None = None, ways: int = 0) -> None:
        """Split as these say, and else as is cheapest for the op by itself.

        Arguments:
            exceptions: What is said.
            known: Ops in all other situations are split as their operands lie, where one of the cheapest ways does so.
            ways: How many of the cheapest.
        """
        self.exceptions = dict(exceptions)
        self._known = known
        self._ways = ways
        self.met: dict[Situation, Split] = {}

    def __call__(
        self,
        signature: Signature,
        sources: tuple[Source, ...],
        layouts: tuple[Layout, ...],
        passing: frozenset[int],
        mesh: Mesh,
        hardware: Hardware,
        unread: frozenset[int],
    ) -> Split:
        """The split of an op; the arguments are those of `assign`."""
        situation = Situation(signature, sources, layouts, passing, mesh, hardware, unread)
        split = self.met.get(situation)
        if split is None:
            split = self.met[situation] = self._split(situation)
        return split

    def _split(self, situation: Situation) -> Split:
        choice = self.exceptions.get(situation)
        if choice is None and self._known is not None and situation not in self._known:
            choice = situation.as_it_lies(self._ways)
            if choice is not None:
                self.exceptions[situation] = choice
        return situation.split() if choice is None else situation.split_as(choice)
