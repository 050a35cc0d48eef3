"""How an op is split that is given what it reads and what it should give, wherever it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shardwright.cost.hardware import Hardware
from shardwright.ir.graph import Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.assign import assign, choice_of
from shardwright.partition.decisions import Computed, Layout
from shardwright.partition.op_notes import extra_work, is_unknown
from shardwright.partition.proposals import Intended, Source
from shardwright.partition.ways import Choice, Way
from shardwright.sharding import TensorSharding, replicated

__all__ = [
    "NOTHING_GIVEN",
    "Given",
    "Situation",
    "Split",
    "filled",
    "is_reduced_behind",
    "of_tensors",
    "split_alike",
    "split_as",
    "split_by",
]


class Split(NamedTuple):
    """How an op is split that reads and gives such layouts, wherever it stands.

    Attributes:
        choice: The way that it is split.
        computed: The decision, where nothing has to be made of operands first.
        work: Multiply-adds of each device beyond its share.
        is_there: Whether each operand has the version that it reads; of constants that is not known.
        is_all: Whether nothing is told of it, and none of its results is reduced behind it.
    """

    choice: Choice
    computed: Computed
    work: int
    is_there: bool
    is_all: bool


class Situation(NamedTuple):
    """All that the split of an op may depend on, wherever it stands; the fields are the arguments of `assign`."""

    signature: Signature
    sources: tuple[Source, ...]
    layouts: tuple[Layout, ...]
    passing: frozenset[int]
    mesh: Mesh
    hardware: Hardware
    unread: frozenset[int]
    intended: Intended = ()

    @property
    def targets(self) -> tuple[TensorSharding, ...]:
        """The sharding each result should have; of what is no tensor, one of no dimensions."""
        return filled(self.layouts, self.mesh)


@dataclass(frozen=True, slots=True)
class Given:
    """What is chosen of single ops, wherever they stand.

    Attributes:
        ways: How they are split.
        ahead: Loops and branches, with the versions of values that are made in front of them, being read within.
        carried: Loops, with the layouts of the values that they carry round; branches and barriers, with those of what
            they give.
        made_of: Versions of values, with the version that each is made of.
        behind: Results that nothing leaves partial, being so by another kind than sum, with the layout to which they
            are reduced right behind their ops; the others are to what the program asks for.
        is_told: Whether what users are told of ops is decided with it; a search needs that once, of what it ends with.
    """

    ways: Mapping[Op, Way] = field(default_factory=dict)
    ahead: Mapping[Op, tuple[tuple[int, TensorSharding], ...]] = field(default_factory=dict)
    carried: Mapping[Op, tuple[Layout, ...]] = field(default_factory=dict)
    made_of: Mapping[tuple[int, TensorSharding], TensorSharding] = field(default_factory=dict)
    behind: Mapping[int, TensorSharding] = field(default_factory=dict)
    is_told: bool = True


NOTHING_GIVEN = Given()
"""Every op is split by its situation, and every version made where it is read."""


@memoize
def split_alike(situation: Situation) -> Split:
    """How all ops in a situation are split: as is cheapest for the op by itself."""
    signature, sources, _, passing, _, hardware, unread, intended = situation
    return split_as(assign(signature, sources, situation.targets, passing, hardware, unread, intended), situation)


@memoize
def split_by(way: Way, situation: Situation) -> Split:
    """How an op in a situation is split in a way that is given."""
    signature, sources, _, passing, _, hardware, unread, _ = situation
    return split_as(choice_of(way, signature, sources, situation.targets, passing, hardware, unread), situation)


def split_as(choice: Choice, situation: Situation) -> Split:
    """How an op in a situation is split by one of the choices that it has there."""
    signature, sources, *_ = situation
    work = extra_work(signature, choice, sources, situation.targets)
    operands = of_tensors(signature.operands, choice.operands)
    computed = Computed((), operands, of_tensors(signature.results, choice.results))
    told = choice.gathered or choice.whole or work or is_unknown(signature)
    is_there = all(layout in source for layout, source in zip(choice.operands, sources, strict=True))
    return Split(choice, computed, work, is_there, not told and not is_reduced_behind(choice))


def is_reduced_behind(choice: Choice) -> bool:
    """Whether results are partial by another kind than sum, which nothing stays."""
    return choice.kind != "sum" and any(result.partial for result in choice.results)


def filled(layouts: tuple[Layout, ...], mesh: Mesh) -> tuple[TensorSharding, ...]:
    """Layouts, what is no tensor having one of no dimensions."""
    return tuple([layout or replicated(mesh, 0) for layout in layouts])


def of_tensors(types: tuple[TensorType, ...], layouts: Sequence[TensorSharding]) -> tuple[Layout, ...]:
    """The layouts of what are tensors."""
    return tuple([None if type.shape is None else layout for type, layout in zip(types, layouts, strict=True)])
