"""All ways in which an op can be split on a mesh, what each takes by itself, and the layouts that its tensors get."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
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
from shardwright.partition.joined_axes import Groups
from shardwright.partition.proposals import Shardings, Source
from shardwright.partition.search.held import held_in
from shardwright.partition.search.listed import Listed, listed_by_rule
from shardwright.partition.search.rows import Numbers
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.ways import (
    PartialTogether,
    Question,
    Way,
    partial_together,
    passing_ways,
    question_of,
    ways_lying,
    works_of,
)
from shardwright.sharding import Partial, TensorSharding

__all__ = ["AllWays", "Layouts", "Numbers", "Seconds", "Together", "all_ways", "numbered"]

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
    groups: Groups = (),
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
        groups: The axes of the mesh by those that are not to be told apart; none where all may be.
    """
    splits = splits_of(signature)
    assert splits is not None
    question = question_of(signature, splits, sources, asked, frozenset(), hardware)
    asked_of = [_passing(question, signature, splits, one) for one in passing]
    through = list(itertools.chain.from_iterable(map(partial_together, asked_of)))
    types = *signature.operands, *signature.results
    listed = listed_by_rule(splits, sources, asked, groups)
    lying = listed.operands, listed.results
    plain = every = ways_lying(question, *lying, works_of(splits, listed.parts, hardware))
    if through:
        every = list(_ways(through, listed.factors, plain))
        different = _different([way.operands for way in every], [way.results for way in every])
    else:
        different = _of_listed(listed)
    found = list(map(every.__getitem__, different.first))
    ways, tensors = _held(found, different.tensors, types, most_held, decided)
    count = len(signature.operands)
    costs = [way.own if way.exchange is NOTHING else way.own + way.exchange for way in ways]
    prices = {cost: price(cost, hardware) for cost in dict.fromkeys(costs)}
    return AllWays(ways, np.array(list(map(prices.__getitem__, costs))), tensors[:count], tensors[count:])


class _Different(NamedTuple):
    """Ways by how they split tensors.

    Attributes:
        first: Which of them are the first of those that split all tensors alike.
        tensors: The layouts of each operand, and then each result, by these.
    """

    first: Sequence[int]
    tensors: tuple[Layouts, ...]


def _different(operands: Sequence[Shardings], results: Sequence[Shardings]) -> _Different:
    """By how operands and results lie by each way: of equal layouts all are one object."""
    lying = [(*read, *made) for read, made in zip(operands, results, strict=True)]
    found: dict[tuple[int, ...], int] = {}
    for number, one in enumerate(lying):
        found.setdefault(tuple(map(id, one)), number)
    first = list(found.values())
    return _Different(first, _tensors([lying[number] for number in first], len(lying[0])))


@memoize
def _of_listed(listed: Listed) -> _Different:
    """Of ways in which no part of a sum passes through."""
    return _different(listed.operands, listed.results)


def _held(
    found: Sequence[Way],
    tensors: tuple[Layouts, ...],
    types: Sequence[TensorType],
    most_held: Sequence[float],
    decided: tuple[tuple[Layout, ...], tuple[Layout, ...]],
) -> tuple[tuple[Way, ...], tuple[Layouts, ...]]:
    """The ways of which a device may hold all tensors, and the one that was decided; and the layouts of each tensor."""
    keeps = np.ones(len(found), dtype=bool)
    for type, (layouts, of_way), most in _each_differently(types, tensors, most_held):
        if most < type.bytes:  # a part is no more than the whole
            keeps &= (held_in(type, layouts) <= most)[of_way]
    if keeps.all():
        return tuple(found), tensors
    pairs = zip(found, keeps.tolist(), strict=True)
    kept = tuple([way for way, keep in pairs if keep or (way.operands, way.results) == decided])
    return kept, _tensors([(*way.operands, *way.results) for way in kept], len(types))


def _each_differently(
    types: Sequence[TensorType], tensors: Sequence[Layouts], most_held: Sequence[float]
) -> Iterable[tuple[TensorType, Layouts, float]]:
    """The tensors of which others are no copy: of the same type, and in the same layouts."""
    each = list(zip(types, tensors, most_held, strict=True))
    return {(type, id(tensor), most): one for one in each for type, tensor, most in (one,)}.values()


def _tensors(lying: Sequence[Shardings], count: int) -> tuple[Layouts, ...]:
    """The layouts of each tensor, of which there are so many, by how all lie by each way; many lie as others do."""
    columns = list(zip(*lying, strict=True)) if lying else [()] * count
    keys = [tuple(map(id, column)) for column in columns]
    different = {key: numbered(column) for key, column in dict(zip(keys, columns, strict=True)).items()}
    return tuple(map(different.__getitem__, keys))


def _ways(through: Sequence[PartialTogether], listed: Sequence[FactorAxes], plain: Sequence[Way]) -> Iterator[Way]:
    """What axes of factors allow, with no part of a sum passing through, and with some."""
    for factors, way in zip(listed, plain, strict=True):
        yield way
        yield from passing_ways(through, factors, way)


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
    keys = list(map(id, layouts))
    different = dict(zip(keys, layouts, strict=True)).items()
    number_of = {key: numbers.setdefault(one, len(numbers)) for key, one in different if one is not None}
    of_way = [number_of[key] for key in keys if key in number_of]
    return Layouts(_interned(tuple(numbers)), np.array(of_way, dtype=np.intp))


@memoize
def _interned(layouts: Shardings) -> Shardings:
    """The first of all equal ones: there are tables between these, which many links look up."""
    return layouts
