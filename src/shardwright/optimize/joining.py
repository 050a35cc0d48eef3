"""Several collectives of a kind as one, as a device does it.

all_reduce        one after the other, none of which reads another: XLA sends those as one
all_gather        the same, of a row each, which are one op of one device     rows are put in their dimensions
reduce_scatter    side by side, a row for each device        one row is left, which is cut apart
                  or as an all_reduce beside others, of which each device keeps its part
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shardwright.axes import Axes, axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.cost.price import Cost
from shardwright.ir.attributes import i64_array, integer
from shardwright.ir.graph import Op
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.partition.enclose import is_lacking
from shardwright.partition.localize.collectives import (
    local_all_gather,
    local_all_reduce,
    local_all_slice,
    local_reduce_scatter,
)
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.search.total import steps_cost
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, ReduceScatter, Step

__all__ = [
    "Kind",
    "Write",
    "between",
    "cost_beside",
    "cut_apart",
    "is_copied",
    "kind_of",
    "kind_of_whole",
    "send_together",
]

Write = Callable[[Local, Sequence[int]], Sequence[int]]
"""Appends what one device does, given what it has; what it then has of the results."""


class Kind(NamedTuple):
    """What collectives have in common that can be put together: what is gathered may be of any types."""

    step: type[Step]
    axes: Axes
    reduction: str
    mesh: Mesh
    dtype: str


def kind_of(program: ExplicitProgram, op: Op) -> Kind | None:
    """Of what kind a collective is; `None` where it cannot be put together with any.

    Nor can an all_reduce of which devices keep a slice each: compilers make a reduce_scatter of both.
    """
    step = program.step(op)
    if not isinstance(step, AllReduce | ReduceScatter | AllGather):
        return None
    layouts, cost = program.layouts((*op.operands, *op.results)), program.cost(op)
    if layouts is None or cost.starts != 1 or any(map(is_lacking, layouts)):
        return None
    dtype, mesh = op.signature.operands[0].dtype, layouts[0].mesh
    match step:
        case AllReduce(axes, kind) if kind not in combined_by_hand(dtype) and not _is_sliced(program, op):
            return Kind(AllReduce, axes, kind, mesh, dtype)
        case ReduceScatter(lists, kind) if kind not in combined_by_hand(dtype):
            return Kind(ReduceScatter, lists[_dim(step)], kind, mesh, dtype)
        case AllGather(lists):
            return Kind(AllGather, lists[_dim(step)], "", mesh, "")
    return None


def kind_of_whole(kind: Kind) -> Kind:
    """Of what kind a reduce_scatter is as an all_reduce of which each device keeps its part."""
    return kind._replace(step=AllReduce)


def cost_beside(program: ExplicitProgram, op: Op, kind: Kind) -> Cost:
    """What a collective costs as one of a kind: its own, or, of a reduce_scatter among all_reduces, one of these."""
    layout = program.layout(op.operands[0])
    if layout is None or kind.step is not AllReduce or isinstance(program.step(op), AllReduce):
        return program.cost(op)
    reduced = (AllReduce(kind.axes, kind.reduction),)
    return steps_cost(program.type(op.operands[0]), layout, reduced, program.hardware.links)


def _is_sliced(program: ExplicitProgram, op: Op) -> bool:
    readers = program.readers(op.results[0])
    return len(readers) == 1 and isinstance(program.step(readers[0]), AllSlice)


def _dim(step: AllGather | ReduceScatter) -> int:
    """The one dimension that is gathered or scattered."""
    return max(range(len(step.axes)), key=lambda dim: axes_size(step.axes[dim]))


def is_copied(program: ExplicitProgram, op: Op) -> tuple[bool, bool]:
    """Whether a device copies what a collective gives to be sent with others, and what comes of it behind that."""
    step = program.step(op)
    return isinstance(step, ReduceScatter), isinstance(step, ReduceScatter) or (
        isinstance(step, AllGather) and _dim(step) > 0
    )


def between(program: ExplicitProgram, ops: Sequence[Op], kind: Kind) -> list[int]:
    """New values that hold what is sent of collectives of a kind, parts of its own on each device, to be cut apart.

    There are none where each gives its result at once.
    """
    locals = [local_type(program.type(op.results[0]), program.layout(op.results[0])) for op in ops]
    if kind.step is AllReduce:
        return []
    if kind.step is ReduceScatter:
        rows = [TensorType((kind.mesh.size, sum(type.elements for type in locals)), kind.dtype)]
    else:
        count = axes_size(kind.axes)
        rows = [type.with_shape((kind.mesh.size * count, type.elements // count)) for type in locals]
    layout = TensorSharding.of(kind.mesh, [list(kind.mesh.sizes), []])
    return [program.graph.new_value(type, layout) for type in rows]


def send_together(program: ExplicitProgram, ops: Sequence[Op], kind: Kind) -> Write:
    """What a device does of collectives of a kind: the values of `between`, or, where there are none, the results."""
    steps = [program.step(op) for op in ops]
    count = axes_size(kind.axes)

    def write(ctx: Local, shards: Sequence[int]) -> Sequence[int]:
        if kind.step is AllReduce:
            sums = [local_all_reduce(ctx, shard, kind.axes, kind.reduction, kind.mesh) for shard in shards]
            return _kept(ctx, sums, steps, kind.mesh)
        rows = [_rows(ctx, shard, step, count) for shard, step in zip(shards, steps, strict=True)]
        if kind.step is AllGather:
            return [local_all_gather(ctx, row, kind.axes, 0, kind.mesh) for row in rows]
        (height, _), widths = ctx.type(rows[0]).dims, [ctx.type(row).dims[1] for row in rows]
        whole = ctx.emit(
            "concatenate", rows, ctx.type(rows[0]).with_shape((height, sum(widths))), {"dimension": integer(1)}
        )
        return [local_reduce_scatter(ctx, whole, kind.axes, 0, kind.reduction, kind.mesh)]

    return write


def cut_apart(program: ExplicitProgram, ops: Sequence[Op], kind: Kind) -> Write:
    """What a device does with the values of `between`: makes the result of each collective."""
    steps = [program.step(op) for op in ops]
    count = axes_size(kind.axes)
    types = [local_type(program.type(op.results[0]), program.layout(op.results[0])) for op in ops]

    def write(ctx: Local, values: Sequence[int]) -> list[int]:
        parts = values if kind.step is AllGather else _columns(ctx, values[0], [type.elements for type in types])
        return [_apart(ctx, *one, count) for one in zip(parts, steps, types, strict=True)]

    return write


def _kept(ctx: Local, sums: Sequence[int], steps: Sequence[Step | None], mesh: Mesh) -> list[int]:
    """What a device keeps of sums: its part of those that were to be scattered."""
    return [
        local_all_slice(ctx, value, step.axes, mesh) if isinstance(step, ReduceScatter) else value
        for value, step in zip(sums, steps, strict=True)
    ]


def _rows(ctx: Local, shard: int, step: Step | None, count: int) -> int:
    """What a device gives of a shard, in rows: one for each device that is to get another part, or a single one."""
    type = ctx.type(shard)
    if not isinstance(step, ReduceScatter):
        return ctx.reshape(shard, (1, type.elements))
    dim, dims = _dim(step), type.dims
    cut = ctx.reshape(shard, (*dims[:dim], count, dims[dim] // count, *dims[dim + 1 :]))
    order = (dim, *[place for place in range(len(dims) + 1) if place != dim])
    return ctx.reshape(ctx.transpose(cut, order) if dim else cut, (count, type.elements // count))


def _apart(ctx: Local, rows: int, step: Step | None, type: TensorType, count: int) -> int:
    """What a device holds of a result, from rows: one from each device that had a part, or a single one."""
    if not isinstance(step, AllGather):
        return ctx.reshape(rows, type.dims)
    dim, dims = _dim(step), type.dims
    part = (*dims[:dim], dims[dim] // count, *dims[dim + 1 :])
    stacked = ctx.reshape(rows, (count, *part))
    order = (*range(1, dim + 1), 0, *range(dim + 1, len(part) + 1))
    return ctx.reshape(ctx.transpose(stacked, order) if dim else stacked, dims)


def _columns(ctx: Local, row: int, widths: Sequence[int]) -> list[int]:
    """A row, cut into columns."""
    type, parts = ctx.type(row), []
    for width, end in zip(widths, itertools.accumulate(widths), strict=True):
        bounds = {"start_indices": (0, end - width), "limit_indices": (1, end), "strides": (1, 1)}
        attributes = {name: i64_array(numbers) for name, numbers in bounds.items()}
        parts.append(ctx.emit("slice", (row,), type.with_shape((1, width)), attributes))
    return parts
