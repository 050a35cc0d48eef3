"""What is decided of a propagated program before anything of it is written: plain frozen values.

A value of the program may lie in several layouts in turn. Each of them is a *version* of the value, known by its
layout: from where it is made to the end of the program, or of the region that it is made in. Decisions name values by
their numbers in the propagated graph, and stand in the order of its ops.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.partition.note import Note
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["AtUses", "Computed", "Decision", "Decisions", "Fresh", "Layout", "PassedOn", "Reshard", "Version"]

Layout = TensorSharding | None
"""How a value lies; `None` for what is no tensor."""


@dataclass(frozen=True, slots=True)
class Reshard:
    """Versions of a value made out of one that there is: one more after each step.

    Attributes:
        value: The value.
        source: The version that is taken.
        steps: The collectives, in order.
    """

    value: int
    source: TensorSharding
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Fresh:
    """A version that any device makes for itself: of a constant, a broadcast scalar, or a tensor without elements.

    Attributes:
        value: The value.
        layout: The version.
        before: Versions of what its op reads, made first.
        operands: The versions that its op reads.
    """

    value: int
    layout: TensorSharding
    before: tuple[Version, ...] = ()
    operands: tuple[Layout, ...] = ()


Version = Reshard | Fresh
"""How versions of a value come about."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An op, or a terminator, that is written where it stands.

    Attributes:
        before: The versions that are made for it first, in order.
        operands: The version of each operand that it reads.
        results: How each result is computed, partial perhaps: its first version. What an op of several regions hands
            to them, and takes from them, lies so as well.
        after: The versions of results that are made right behind it: what is partial by another kind than sum is
            reduced there, and nothing else reads what these are made of.
        notes: What users are told of it, without its place.
    """

    before: tuple[Version, ...]
    operands: tuple[Layout, ...]
    results: tuple[Layout, ...] = ()
    after: tuple[Reshard, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class PassedOn:
    """An op of which nothing is left: its results are its operands, or what its body yields.

    Attributes:
        before: The versions that are made where it stands: a request for a layout makes that layout.
    """

    before: tuple[Version, ...] = ()


@dataclass(frozen=True, slots=True)
class AtUses:
    """An op that is computed where its result is read, in each layout that is read: see `Fresh`."""


Decision = Computed | PassedOn | AtUses
"""What becomes of an op."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """All that is decided of a graph. Equal where the same program would be written; can be pickled.

    Attributes:
        arguments: How each argument of the program comes.
        results: How each result is returned.
        ops: For each op of `Graph.walk()` what becomes of it. `None` where nothing is to be decided: of sharding
            groups, of bodies of manual computations, of the ends of bodies that are put in the place of their ops.
    """

    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]
    ops: tuple[Decision | None, ...]
