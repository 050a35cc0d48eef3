"""How much a device holds of the tensors of a program as decided."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardwright.ir.graph import Graph, Op
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.decisions import Computed, Decision, Decisions, Layout
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.as_decided import Decided, Different
from shardwright.partition.search.lying import lying_of
from shardwright.partition.search.rows import Numbers, starts_of
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes

__all__ = [
    "Most",
    "NOTHING_HELD",
    "Held",
    "bytes_held",
    "held_by",
    "held_in",
    "is_held",
    "largest_held",
    "most_each",
    "most_of",
    "most_to_hold",
]

_UNTOLD = -1

Most = float | Sequence[float]
"""Bytes that a device may hold of any tensor, or of each value of a program."""


def largest_held(decided: Decided) -> int:
    """Bytes that a device holds of the largest tensor that an op reads or makes."""
    types, tensors = decided.graph.types, [_tensors(one.op, one.decision) for one in decided.different]
    each = [(types[value], layout) for value, layout in itertools.chain.from_iterable(tensors)]
    different = {(id(type), id(layout)): (type, layout) for type, layout in each}
    return max(itertools.starmap(bytes_held, different.values()), default=0)


class Held(NamedTuple):
    """What a device holds of a program as decided, as if every value stayed as it lies until it was last read, and
    took as much all the time as where an op has most of it.

    Attributes:
        beside: The most bytes that are alive at once, those of arguments and results left out.
        boundary: Those of arguments and results.
    """

    beside: int
    boundary: int


NOTHING_HELD = Held(0, 0)


def held_by(decided: Decided) -> Held:
    """What is held of a program as decided, about: what compilers make part of what reads it is counted as well."""
    main, count, ops = decided.graph.main.block, len(decided.graph.types), len(decided.ops)
    places, values, bytes = _read_and_made(decided)
    size, last = np.zeros(count, np.intp), np.zeros(count, np.intp)
    first = np.full(count, ops, np.intp)
    np.maximum.at(size, values, bytes)
    np.minimum.at(first, values, places)
    np.maximum.at(last, values, places)
    outside = np.array(list(dict.fromkeys([*main.arguments, *main.terminator.operands])), np.intp)
    boundary, size[outside] = size[outside].sum(), 0
    grown = np.zeros(ops + 2, np.intp)
    np.add.at(grown, first, size)
    np.subtract.at(grown, last + 1, size)
    return Held(int(np.cumsum(grown).max()), int(boundary))


def _read_and_made(decided: Decided) -> tuple[Numbers, Numbers, Numbers]:
    """Op by op the values that it reads and makes: its place, the value, and the bytes of it that a device has."""
    types, (counts, values) = decided.graph.types, decided.of.tensors
    of_each = [_each_held(types, one) for one in decided.different]
    starts = starts_of(np.array(list(map(len, of_each)), np.intp))
    bytes = np.fromiter(itertools.chain.from_iterable(of_each), np.intp)
    begin = np.repeat(starts[decided.number_of] - starts_of(counts), counts)
    bytes = bytes[begin + np.arange(values.size)]
    told = np.flatnonzero(bytes != _UNTOLD)
    return np.repeat(np.arange(counts.size), counts)[told], values[told], bytes[told]


def _each_held(types: Sequence[TensorType], one: Different) -> list[int]:
    """The bytes that a device has of each tensor that an op reads or makes, `_UNTOLD` of what nothing is decided."""
    held = list[int]()
    told = (one.decision.operands, one.decision.results) if isinstance(one.decision, Computed) else ((), ())
    for values, layouts in zip((one.op.operands, one.op.results), told, strict=True):
        held += [bytes_held(types[value], layout) for value, layout in zip(values, layouts, strict=False)]
        held += [_UNTOLD] * (len(values) - len(layouts))
    return held


def _tensors(op: Op, decision: Decision | None) -> Iterator[tuple[int, Layout]]:
    """The values that an op reads and makes, and how each lies; of branches of results alone."""
    if isinstance(decision, Computed):
        yield from zip(op.operands, decision.operands, strict=False)
        yield from zip(op.results, decision.results, strict=False)


def most_to_hold(decided: Decided) -> float:
    """Bytes that a device may hold of a tensor if it need not hold more for another choice than for this one: those of
    the largest, or a quarter of those of all arguments. Less memory is worth more than the start of a collective.
    """
    types = decided.graph.types
    given = zip(decided.graph.main.block.arguments, decided.decisions.arguments, strict=True)
    return max(largest_held(decided), sum(bytes_held(types[value], layout) for value, layout in given) / 4)


def most_each(graph: Graph, decisions: Decisions) -> Sequence[float]:
    """Bytes that a device may hold of each value if it is to hold hardly more than as decided: what it holds of it
    then, or a quarter of what it holds of the largest, to which small ones add little.
    """
    most: list[float] = [0.0] * len(graph.types)
    for op, decision in zip(graph.walk(), decisions.ops, strict=True):
        for value, layout in _tensors(op, decision):
            most[value] = max(most[value], bytes_held(graph.types[value], layout))
    little = max(most, default=0.0) / 4
    return [max(one, little) for one in most]


def most_of(most: Most, value: int) -> float:
    """Bytes that a device may hold of a value."""
    return most if isinstance(most, float | int) else most[value]


@memoize
def is_held(type: TensorType, layout: TensorSharding, most: float) -> bool:
    """Whether a device may hold so many bytes of a tensor."""
    return bytes_held(type, layout) <= most


def held_in(type: TensorType, layouts: Shardings) -> NDArray[np.float64]:
    """Bytes that a device holds of a tensor in each of some layouts."""
    lying, element_bytes = lying_of(layouts), type.bytes // max(1, type.elements)
    if not (lying.is_even and layouts):
        return np.array([float(local_bytes(type.dims, element_bytes, layout)) for layout in layouts])
    sizes = -(-np.array(type.dims, dtype=np.intp) // lying.parts)
    held: NDArray[np.float64] = element_bytes * sizes.prod(axis=1, dtype=float)
    return held


def bytes_held(type: TensorType, layout: Layout) -> int:
    """Bytes that a device holds of a tensor; none of what is no tensor."""
    return 0 if layout is None else local_bytes(type.dims, type.bytes // max(1, type.elements), layout)
