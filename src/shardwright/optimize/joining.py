"""Several collectives of a kind as one, as a device does it: side by side in rows, and cut apart again.

all_reduce        1 × n of each, one behind the other        what it is after is cut at the same places
reduce_scatter    a row for each device, with its part       one row is left
all_gather        one row                                    a row from each device
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shardwright.axes import Axes, axes_size
from shardwright.cost.collectives import combined_by_hand
from shardwright.ir.attributes import i64_array, integer
from shardwright.ir.graph import Op
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.partition.enclose import is_lacking
from shardwright.partition.localize.collectives import local_all_gather, local_all_reduce, local_reduce_scatter
from shardwright.partition.localize.local import Local, local_type
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, ReduceScatter, Step

__all__ = ["Kind", "Write", "cut_apart", "kind_of", "send_together", "together"]

Write = Callable[[Local, Sequence[int]], Sequence[int]]
"""Appends what one device does, given what it has; what it then has of the results."""


class Kind(NamedTuple):
    """What collectives have in common that can be put together."""

    step: type[Step]
    axes: Axes
    reduction: str
    mesh: Mesh
    dtype: str


def kind_of(program: ExplicitProgram, op: Op) -> Kind | None:
    """Of what kind a collective is; `None` where it cannot be put together with any.

    Nor can an all_reduce of which devices keep a slice each: compilers make a reduce_scatter of both.
    """
    step, layouts = program.step(op), program.layouts((*op.operands, *op.results))
    dtype, cost = op.signature.operands[0].dtype if op.operands else "", program.cost(op)
    if layouts is None or cost.starts != 1 or any(map(is_lacking, layouts)):
        return None
    mesh = layouts[0].mesh
    match step:
        case AllReduce(axes, kind) if kind not in combined_by_hand(dtype) and not _is_sliced(program, op):
            return Kind(AllReduce, axes, kind, mesh, dtype)
        case ReduceScatter(lists, kind) if kind not in combined_by_hand(dtype):
            return Kind(ReduceScatter, lists[_dim(step)], kind, mesh, dtype)
        case AllGather(lists):
            return Kind(AllGather, lists[_dim(step)], "", mesh, dtype)
    return None


def _is_sliced(program: ExplicitProgram, op: Op) -> bool:
    readers = program.readers(op.results[0])
    return len(readers) == 1 and isinstance(program.step(readers[0]), AllSlice)


def _dim(step: AllGather | ReduceScatter) -> int:
    """The one dimension that is gathered or scattered."""
    return max(range(len(step.axes)), key=lambda dim: axes_size(step.axes[dim]))


def together(program: ExplicitProgram, ops: Sequence[Op]) -> int:
    """A new value that holds what collectives of a kind give, side by side: a part of its own on each device."""
    kind, (step, *_) = kind_of(program, ops[0]), map(program.step, ops)
    assert kind is not None
    rows = axes_size(kind.axes) if isinstance(step, AllGather) else 1
    columns = sum(local_type(program.type(op.results[0]), program.layout(op.results[0])).elements for op in ops) // rows
    layout = TensorSharding.of(kind.mesh, [list(kind.mesh.sizes), []])
    return program.graph.new_value(TensorType((kind.mesh.size * rows, columns), kind.dtype), layout)


def send_together(program: ExplicitProgram, ops: Sequence[Op]) -> Write:
    """What a device does of collectives of a kind: puts side by side what it gives, and sends that."""
    kind, steps = kind_of(program, ops[0]), [program.step(op) for op in ops]
    assert kind is not None
    count = axes_size(kind.axes)

    def write(ctx: Local, shards: Sequence[int]) -> list[int]:
        rows = [_rows(ctx, shard, step, count) for shard, step in zip(shards, steps, strict=True)]
        (height, _), widths = ctx.type(rows[0]).dims, [ctx.type(row).dims[1] for row in rows]
        whole = ctx.emit(
            "concatenate", rows, ctx.type(rows[0]).with_shape((height, sum(widths))), {"dimension": integer(1)}
        )
        if kind.step is AllReduce:
            return [local_all_reduce(ctx, whole, kind.axes, kind.reduction, kind.mesh)]
        if kind.step is ReduceScatter:
            return [local_reduce_scatter(ctx, whole, kind.axes, 0, kind.reduction, kind.mesh)]
        return [local_all_gather(ctx, whole, kind.axes, 0, kind.mesh)]

    return write


def cut_apart(program: ExplicitProgram, ops: Sequence[Op]) -> Write:
    """What a device does with what collectives give side by side: cuts it into the result of each."""
    kind, steps = kind_of(program, ops[0]), [program.step(op) for op in ops]
    assert kind is not None
    count = axes_size(kind.axes)
    types = [local_type(program.type(op.results[0]), program.layout(op.results[0])) for op in ops]

    def write(ctx: Local, values: Sequence[int]) -> list[int]:
        (whole,) = values
        height, _ = ctx.type(whole).dims
        widths = [type.elements // height for type in types]
        ends = itertools.accumulate(widths)
        parts = [_columns(ctx, whole, end - width, end) for width, end in zip(widths, ends, strict=True)]
        return [_apart(ctx, *one, count) for one in zip(parts, steps, types, strict=True)]

    return write


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


def _columns(ctx: Local, rows: int, start: int, end: int) -> int:
    """Some columns of rows."""
    type = ctx.type(rows)
    bounds = {"start_indices": (0, start), "limit_indices": (type.dims[0], end), "strides": (1, 1)}
    attributes = {name: i64_array(numbers) for name, numbers in bounds.items()}
    return ctx.emit("slice", (rows,), type.with_shape((type.dims[0], end - start)), attributes)
