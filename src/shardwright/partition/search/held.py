"""How much a device holds of the tensors of a program as decided."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from shardwright.ir.graph import Graph, Op
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.decisions import Computed, Decision, Decisions, Layout
from shardwright.partition.search.as_decided import Decided
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes

__all__ = ["Most", "bytes_held", "bytes_touched", "is_held", "largest_held", "most_each", "most_of", "most_to_hold"]

Most = float | Sequence[float]
"""Bytes that a device may hold of any tensor, or of each value of a program."""


def largest_held(decided: Decided) -> int:
    """Bytes that a device holds of the largest tensor that an op reads or makes."""
    types, tensors = decided.graph.types, itertools.starmap(_tensors, decided.different.values())
    each = [(types[value], layout) for value, layout in itertools.chain.from_iterable(tensors)]
    different = {(id(type), id(layout)): (type, layout) for type, layout in each}
    return max(itertools.starmap(bytes_held, different.values()), default=0)


def bytes_touched(decided: Decided) -> int:
    """Bytes of a device that its ops read and make, all added up: mostly far more than are ever alive at once."""
    types, different = decided.graph.types, decided.different
    of_each = {
        key: sum(bytes_held(types[value], layout) for value, layout in _tensors(*one)) for key, one in different.items()
    }
    return sum(of_each[key] * count for key, count in Counter(decided.keys).items())


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


def bytes_held(type: TensorType, layout: Layout) -> int:
    """Bytes that a device holds of a tensor; none of what is no tensor."""
    return 0 if layout is None else local_bytes(type.dims, type.bytes // max(1, type.elements), layout)
