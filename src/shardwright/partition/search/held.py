"""How much a device holds of the tensors of a program as decided."""

from __future__ import annotations

from shardwright.ir.graph import Graph
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.decisions import Computed, Decisions, Layout
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes

__all__ = ["is_held", "largest_held", "most_to_hold"]


def largest_held(graph: Graph, decisions: Decisions) -> int:
    """Bytes that a device holds of the largest tensor that an op reads or makes."""
    walked = zip(graph.walk(), decisions.ops, strict=True)
    decided = {(id(op.signature), id(one)): (op, one) for op, one in walked}  # many ops are one and the same so
    tensors = [
        (value, layout)
        for op, one in decided.values()
        if isinstance(one, Computed)
        for value, layout in zip((*op.operands, *op.results), (*one.operands, *one.results), strict=False)
    ]  # of branches results alone are told
    return max([_held(graph.types[value], layout) for value, layout in tensors], default=0)


def most_to_hold(graph: Graph, decisions: Decisions) -> float:
    """Bytes that a device may hold of a tensor if it need not hold more for another choice than for this one: those of
    the largest, or a quarter of those of all arguments. Less memory is worth more than the start of a collective.
    """
    given = zip(graph.main.block.arguments, decisions.arguments, strict=True)
    return max(largest_held(graph, decisions), sum(_held(graph.types[value], layout) for value, layout in given) / 4)


@memoize
def is_held(type: TensorType, layout: TensorSharding, most: float) -> bool:
    """Whether a device may hold so many bytes of a tensor."""
    return _held(type, layout) <= most


def _held(type: TensorType, layout: Layout) -> int:
    return 0 if layout is None else local_bytes(type.dims, type.bytes // max(1, type.elements), layout)
