"""Two slices of one tensor that are joined the other way round, taken for the roll that they are.

    %0 = slice %x [1:4096]     %1 = slice %x [0:1]     %2 = concatenate %0, %1

Each slice by itself would be gathered, as 4095 rows do not divide by any number of shards. So before it is decided how
ops are computed each such pair becomes one op, `shardwright.roll`, where its tensor or its result is split along the
dimension. That op is no dialect's: what is not split in the end is written as the slices again, and what is split, as
the computation of one device (see `enclose`).
"""

from __future__ import annotations

from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.partition.localize.checks import is_split
from shardwright.partition.localize.rolls import ROLL, roll, written
from shardwright.partition.merged import with_merged
from shardwright.rules.text import ATTRIBUTE

__all__ = ["with_rolls", "without_whole_rolls"]

_SLICE, _CONCATENATE = "stablehlo.slice", "stablehlo.concatenate"


def with_rolls(graph: Graph) -> Graph:
    """A propagated graph with rolls in the place of slices that are joined; the graph itself where there are none.

    Slices that nothing else reads are left out. The graph given stays as it is.
    """
    outside = graph.main.block.walk(opaque=(MANUAL,))
    parts = {op.results[0]: op for op in outside if op.signature.name in (_SLICE, _CONCATENATE)}
    rolls = {op: made for op in parts.values() if (made := _roll(graph, op, parts)) is not None}
    return with_merged(graph, rolls)


def _roll(graph: Graph, op: Op, parts: dict[int, Op]) -> Op | None:
    """The roll that a concatenation is, along a dimension that is split; `parts` are the slices by their results."""
    if op.name != _CONCATENATE or len(op.operands) != 2:
        return None
    slices = [parts.get(value) for value in op.operands]
    if not all(one is not None and one.name == _SLICE for one in slices):
        return None
    front, back = (one for one in slices if one is not None)
    (value,), dim = front.operands, op.signature.get("dimension")
    rows = op.signature.results[0].dims[dim]
    start = _first_row(front.signature, dim, rows)
    type = graph.types[value]
    if back.operands != front.operands or start is None or graph.types[op.results[0]] != type:
        return None
    if _slice_of(back.signature, dim) != (0, start) or any(one.signature.text(ATTRIBUTE) for one in (op, front, back)):
        return None
    split = (graph.shardings[value], graph.shardings[op.results[0]])
    if not any(sharding is not None and sharding.rank and is_split(sharding.axes[dim]) for sharding in split):
        return None
    return Op(roll(type, dim, start), (value,), op.results, (), op.location)


def _first_row(signature: Signature, dim: int, rows: int) -> int | None:
    """Where a slice begins that takes the rest of a dimension."""
    taken = _slice_of(signature, dim)
    return None if taken is None or taken[1] != rows or not taken[0] > 0 else taken[0]


def _slice_of(signature: Signature, dim: int) -> tuple[int, int] | None:
    """The first row and the one behind the last that a slice takes of `dim`, all of other dimensions and no steps."""
    bounds = zip(*(signature.get(name, ()) for name in ("start_indices", "limit_indices", "strides")), strict=True)
    for number, ((start, limit, step), size) in enumerate(zip(bounds, signature.operands[0].dims, strict=True)):
        if step != 1 or (number != dim and (start, limit) != (0, size)):
            return None
    return signature.get("start_indices")[dim], signature.get("limit_indices")[dim]


def without_whole_rolls(graph: Graph) -> None:
    """Write the slices again, in place, for the rolls of an explicit graph whose dimension is not split."""
    if ROLL in graph.op_names():
        _write_slices(graph, graph.main.block)


def _write_slices(graph: Graph, block: Block) -> None:
    for place, op in reversed(list(enumerate(block.ops))):
        for region in op.regions:
            _write_slices(graph, region)
        if op.name != ROLL:
            continue
        layout = graph.shardings[op.results[0]]
        if layout is None or is_split(layout.axes[op.signature.get("dimension")]):
            continue
        builder = Builder(graph, [], op.location)
        written(builder, op.signature, op.operands[0], layout)
        *slices, last = builder.ops
        block.ops[place : place + 1] = [*slices, Op(last.signature, last.operands, op.results, (), op.location)]
