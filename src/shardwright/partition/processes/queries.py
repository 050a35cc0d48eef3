"""What a device asks of its grid: where it stands, who is next, how large the grid is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local
from shardwright.partition.processes.call import Call, mesh_axes
from shardwright.partition.processes.registry import process

__all__ = ["INDEX", "linear_index"]

INDEX = TensorType((), "i64")
"""The type of a lowered index."""


@process("shard.process_multi_index")
def process_multi_index(call: Call) -> list[int]:
    """This device's coordinates along the axes, all of them where none are listed."""
    return [call.ctx.convert(call.ctx.axis_index((axis,), call.mesh), INDEX.dtype) for axis in _listed(call)]


@process("shard.process_linear_index")
def process_linear_index(call: Call) -> list[int]:
    """This device's position, row-major."""
    return [call.ctx.convert(call.ctx.position(call.mesh), INDEX.dtype)]


@process("shard.grid_shape")
def grid_shape(call: Call) -> list[int]:
    """Sizes of the axes, all of them where none are listed."""
    return [call.ctx.constant(axis.size, INDEX) for axis in _listed(call)]


@process("mesh.idx")
def idx(call: Call) -> list[int]:
    """This device's coordinate along one axis."""
    axis = mesh_axes(call.mesh, (call.integer("axis"),))
    return [call.ctx.convert(call.ctx.axis_index(axis, call.mesh), call.result.dtype)]


@process("mesh.size")
def size(call: Call) -> list[int]:
    """The size of one axis."""
    axis = mesh_axes(call.mesh, (call.integer("axis"),))
    return [call.ctx.constant(axes_size(axis), call.result)]


@process("shard.neighbors_linear_indices")
def neighbors_linear_indices(call: Call) -> list[int]:
    """Positions of the devices before and after the one asked about along `split_axes`; -1 for none."""
    ctx, mesh, device = call.ctx, call.mesh, call.operands
    if len(device) != len(mesh.axes):
        raise ShardingError(
            f"a device of grid @{mesh.name} has {len(mesh.axes)} indices, {len(device)} are given",
            remedy="give one for each axis of the grid",
        )
    axes = call.axes("split_axes")
    coordinates = {axis: device[mesh.order[axis.name]] for axis in axes}
    index = linear_index(ctx, list(coordinates.values()), axes)
    position = linear_index(ctx, device, tuple(mesh.axis(name) for name, _ in mesh.axes))
    count = axes_size(axes)
    none = ctx.constant(-1, INDEX)
    neighbors = []
    for step, edge, beyond in ((-1, 0, "LE"), (1, count - 1, "GE")):
        moved = ctx.binary("add", index, ctx.constant(step, INDEX))
        there = ctx.binary("add", position, _displacement(ctx, mesh, coordinates, moved))
        at_edge = ctx.compare(index, ctx.constant(edge, INDEX), beyond)
        neighbors.append(ctx.select(at_edge, none, there))
    return neighbors


def _displacement(ctx: Local, mesh: Mesh, coordinates: Mapping[AxisRef, int], index: int) -> int:
    """How far in the grid it is from the device of these coordinates to the one of this index along their axes."""
    total = ctx.constant(0, INDEX)
    for axis, coordinate in reversed(list(coordinates.items())):
        size = ctx.constant(axis.size, INDEX)
        way = ctx.binary("subtract", ctx.binary("remainder", index, size), coordinate)
        total = ctx.binary("add", total, ctx.binary("multiply", way, ctx.constant(mesh.digit(axis)[0], INDEX)))
        index = ctx.binary("divide", index, size)
    return total


def linear_index(ctx: Local, coordinates: Sequence[int], axes: Axes) -> int:
    """The index along `axes`, outer to inner, of a device with these coordinates along each: an `i64` scalar."""
    index = ctx.constant(0, INDEX)
    for coordinate, axis in zip(coordinates, axes, strict=True):
        index = ctx.binary("add", ctx.binary("multiply", index, ctx.constant(axis.size, INDEX)), coordinate)
    return index


def _listed(call: Call) -> Axes:
    return call.axes("axes") or tuple(call.mesh.axis(name) for name, _ in call.mesh.axes)
