"""Refreshing the rims of neighbouring shards."""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.axes import Axes, axes_size
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.partition.processes.call import Call, mesh_axes
from shardwright.partition.processes.groups import part, permute, step_targets
from shardwright.partition.processes.registry import process

__all__ = ["split_axes"]


@dataclass(frozen=True, slots=True)
class _Rim:
    """The halo of one dimension: its width below and above, and the axes along which its neighbours lie."""

    axes: Axes
    lower: int = 0
    upper: int = 0


@process("shard.update_halo")
def update_halo(call: Call) -> list[int]:
    """The operand with its halos taken from the neighbours' own data.

    Source: MLIR's ShardToMPI conversion, ConvertUpdateHaloOp, whose order of exchanges this keeps.
    """
    value = call.value
    shape = call.ctx.type(value).dims
    rims = _rims(call, shape)
    starts = [rim.lower for rim in rims]
    sizes = [size - rim.lower - rim.upper for size, rim in zip(shape, rims, strict=True)]
    for dim in reversed(range(len(rims))):
        value = _exchange(call, value, dim, rims[dim], starts, sizes)
        starts[dim], sizes[dim] = 0, shape[dim]
    return [value]


def _exchange(call: Call, value: int, dim: int, rim: _Rim, starts: list[int], sizes: list[int]) -> int:
    """The value with both halos of `dim` refreshed, in the block given for the other dimensions."""
    first, behind = rim.lower, rim.lower + sizes[dim]
    last = axes_size(rim.axes) - 1
    if last == 0:
        return value
    refreshed = value
    for width, source, target, step, edge in (
        (rim.lower, behind - rim.lower, 0, 1, 0),
        (rim.upper, first, behind, -1, last),
    ):
        if width:
            block = [width if number == dim else size for number, size in enumerate(sizes)]
            taken = part(call.ctx, value, _at(starts, dim, source), block)
            received = permute(call.ctx, taken, call.mesh, rim.axes, step_targets(last + 1, step))
            kept = part(call.ctx, value, _at(starts, dim, target), block)
            chosen = call.ctx.select(_is_member(call, rim.axes, edge), kept, received)
            refreshed = _replace(call, refreshed, chosen, _at(starts, dim, target))
    return refreshed


def _at(starts: list[int], dim: int, start: int) -> list[int]:
    return [start if number == dim else other for number, other in enumerate(starts)]


def _is_member(call: Call, axes: Axes, member: int) -> int:
    index = call.ctx.axis_index(axes, call.mesh)
    return call.ctx.compare(index, call.ctx.constant(member, call.ctx.type(index)), "EQ")


def _replace(call: Call, value: int, block: int, starts: list[int]) -> int:
    corners = [call.ctx.constant(start, TensorType((), "i64")) for start in starts]
    return call.ctx.emit("dynamic_update_slice", (value, block, *corners), call.ctx.type(value))


def _rims(call: Call, shape: tuple[int, ...]) -> list[_Rim]:
    """The halo of every dimension."""
    lists = split_axes(call, call.signature.get("split_axes"), len(shape))
    widths = call.static("static_halo_sizes", call.op.operands[1:])
    split = sum(1 for axes in lists if axes)
    if widths and len(widths) != 2 * split:
        raise ShardingError(
            f"{len(widths)} halo sizes for {split} split dimensions", remedy="give two for each split dimension"
        )
    pairs = iter(zip(widths[::2], widths[1::2], strict=True))
    rims = [_Rim(axes, *next(pairs, (0, 0))) if axes else _Rim(()) for axes in lists]
    for dim, (size, rim) in enumerate(zip(shape, rims, strict=True)):
        own = size - rim.lower - rim.upper
        if min(rim.lower, rim.upper) < 0 or own < max(rim.lower, rim.upper):
            raise ShardingError(
                f"dimension {dim} of size {size} has no room for halos of {rim.lower} and {rim.upper}",
                cause="a halo is filled from the data of one neighbour, which must be as wide",
                remedy="use narrower halos, or fewer devices",
            )
    return rims


def split_axes(call: Call, lists: object, rank: int) -> list[Axes]:
    """The axes of each of `rank` dimensions from the value of a `split_axes` attribute; none for those left out.

    Raises:
        ShardingError: no list of lists of axes, more lists than dimensions, or an axis that is used twice.
    """
    if not isinstance(lists, tuple) or not all(isinstance(axes, tuple) for axes in lists) or len(lists) > rank:
        raise ShardingError(
            f"split_axes does not list the axes of up to {rank} dimensions", remedy="split_axes = [[0], [], [1]]"
        )
    numbers = [number for axes in lists for number in axes]
    if not all(isinstance(number, int) for number in numbers):
        raise ShardingError("split_axes names axes that are no numbers", cause=f"it is {lists}")
    mesh_axes(call.mesh, numbers)
    return [mesh_axes(call.mesh, axes) for axes in lists] + [()] * (rank - len(lists))
