"""All ways in which an op can be split on a mesh, what each takes by itself, and the layouts that its tensors get."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.cost.hardware import Hardware
from shardwright.cost.price import price
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.decisions import Layout
from shardwright.partition.edges import NOTHING
from shardwright.partition.factors import FactorAxes
from shardwright.partition.proposals import Shardings, Source, from_mesh
from shardwright.partition.search.held import is_held
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.ways import Question, Way, passing_ways, question_of, ways_of
from shardwright.sharding import Partial, TensorSharding

__all__ = ["LISTED", "AllWays", "Layouts", "Numbers", "Seconds", "Together", "all_ways", "numbered"]

LISTED = 1 << 9
"""Of a great many ways to split an op, those of fewest axes that are looked at."""

Numbers = NDArray[np.intp]
Seconds = NDArray[np.float64]

Together = tuple[tuple[int, ...], tuple[Partial, ...]]
"""Operands that may be parts of sums together, and along which axes."""


class Layouts(NamedTuple):
    """The layouts of a tensor.

    Attributes:
        layouts: Each once.
        of_way: For each way, the number of the layout.
    """

    layouts: tuple[TensorSharding, ...]
    of_way: Numbers


class AllWays(NamedTuple):
    """The ways of an op, those first of which fewest axes are used.

    Attributes:
        ways: Each once.
        seconds: What each takes by itself, with what is exchanged inside.
        operands: Their layouts.
        results: The results'.
    """

    ways: tuple[Way, ...]
    seconds: Seconds
    operands: tuple[Layouts, ...]
    results: tuple[Layouts, ...]


@memoize
def all_ways(
    signature: Signature,
    sources: tuple[Source, ...],
    asked: Shardings,
    passing: tuple[Together, ...],
    decided: tuple[tuple[Layout, ...], tuple[Layout, ...]],
    most_held: tuple[float, ...],
    hardware: Hardware,
) -> AllWays:
    """All ways to split an op.

    Arguments:
        signature: The op, which can be split.
        sources: The layout that each operand has somewhere; none of what any device can make.
        asked: The layouts that its results should have.
        passing: Parts of sums that may pass through.
        decided: The layouts of operands and results of a way that is one of them however much it holds.
        most_held: Bytes that a device may hold of each operand and result.
        hardware: Where.
    """
    splits = splits_of(signature)
    assert splits is not None
    question = question_of(signature, splits, sources, asked, frozenset(), hardware)
    through = [_passing(question, signature, splits, one) for one in passing]
    types = *signature.operands, *signature.results
    found: dict[tuple[Shardings, Shardings], Way] = {}
    for factors in itertools.islice(from_mesh(splits, sources, asked), LISTED):
        for way in _ways(question, through, factors):
            found.setdefault((way.operands, way.results), way)
    ways, tensors = _held(found, types, most_held, decided)
    count = len(signature.operands)
    costs = [way.own if way.exchange is NOTHING else way.own + way.exchange for way in ways]
    seconds = np.array([price(cost, hardware) for cost in costs])
    return AllWays(ways, seconds, tensors[:count], tensors[count:])


def _held(
    found: Mapping[tuple[Shardings, Shardings], Way],
    types: Sequence[TensorType],
    most_held: Sequence[float],
    decided: tuple[tuple[Layout, ...], tuple[Layout, ...]],
) -> tuple[tuple[Way, ...], tuple[Layouts, ...]]:
    """The ways of which a device may hold all tensors, and the one that was decided; and the layouts of each tensor."""
    ways = tuple(found.values())
    tensors = _tensors(ways, len(types))
    keeps = np.ones(len(ways), dtype=bool)
    for type, (layouts, of_way), most in zip(types, tensors, most_held, strict=True):
        if most != math.inf:
            keeps &= np.array([is_held(type, layout, most) for layout in layouts], dtype=bool)[of_way]
    if keeps.all():
        return ways, tensors
    kept = tuple([way for key, way, keep in zip(found, ways, keeps.tolist(), strict=True) if keep or key == decided])
    return kept, _tensors(kept, len(types))


def _tensors(ways: Sequence[Way], count: int) -> tuple[Layouts, ...]:
    """The layouts of each operand, and then each result, of which there are so many."""
    of_ways = [(*way.operands, *way.results) for way in ways]
    return tuple([numbered([layouts[number] for layouts in of_ways]) for number in range(count)])


def _ways(question: Question, through: Sequence[Question], factors: FactorAxes) -> Iterator[Way]:
    """What axes of factors allow, with no part of a sum passing through, and with some."""
    plain, *passing = ways_of(question, factors)
    yield plain
    yield from passing
    for other in through:
        yield from passing_ways(other, factors, plain)


def _passing(question: Question, signature: Signature, splits: Splits, together: Together) -> Question:
    """A question of an op whose operands are parts of sums."""
    sources, (operands, partial) = list(question.sources), together
    for i in operands:
        ((layout,),) = (sources[i],)
        sources[i] = (layout.with_axes(((),) * layout.rank, partial),)
    return question_of(signature, splits, tuple(sources), question.targets, frozenset(operands), question.hardware)


def numbered(layouts: Sequence[Layout]) -> Layouts:
    """The layouts of ways, each once."""
    numbers: dict[TensorSharding, int] = {}
    of_way = [numbers.setdefault(layout, len(numbers)) for layout in layouts if layout is not None]
    return Layouts(_interned(tuple(numbers)), np.array(of_way, dtype=np.intp))


@memoize
def _interned(layouts: Shardings) -> Shardings:
    """The first of all equal ones: there are tables between these, which many links look up."""
    return layouts
