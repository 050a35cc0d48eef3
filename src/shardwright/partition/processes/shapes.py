"""The shape of a shard, asked for by a device."""

from __future__ import annotations

import itertools
from dataclasses import replace

from shardwright.axes import Axes, axes_size
from shardwright.errors import ShardingError
from shardwright.partition.processes.call import Call
from shardwright.partition.processes.halo import split_axes
from shardwright.partition.processes.queries import INDEX, linear_index
from shardwright.partition.processes.registry import process

__all__: list[str] = []

_SHARDING = "!shard.sharding"


@process("shard.sharding")
def sharding(call: Call) -> list[int]:
    """Nothing on the device: what it says is read where it is used."""
    call.state.shardings[call.op.results[0]] = call.op
    return []


@process("shard.shard_shape")
def shard_shape(call: Call) -> list[int]:
    """The sizes of the shard of one device.

    Source: MLIR's ShardToMPI conversion, ConvertShardShapeOp; along several axes the shard of a device is counted in
    the order of the list.
    """
    types = [type.dtype for type in call.signature.operands]
    if types.count(_SHARDING) != 1:
        raise ShardingError("the op has no operand that is a sharding", remedy="give it a shard.sharding")
    place = types.index(_SHARDING)
    definition = _definition(call, call.op.operands[place])
    dims = _values(call, "dims", call.op.operands[:place])
    device = _values(call, "device", call.op.operands[place + 1 :])
    mesh = definition.mesh
    if len(device) != len(mesh.axes):
        raise ShardingError(f"a device of grid @{mesh.name} has {len(mesh.axes)} indices, {len(device)} are given")
    offsets = list(definition.static("static_sharded_dims_offsets", definition.op.operands))
    uneven = bool(offsets)
    sizes = []
    for dim, axes in zip(dims, split_axes(definition, definition.signature.get("split_axes"), len(dims)), strict=True):
        index = linear_index(call.ctx, [device[mesh.order[axis.name]] for axis in axes], axes)
        if not axes:
            sizes.append(dim)
        elif uneven:
            sizes.append(_between(call, _section(offsets, axes), index))
        else:
            sizes.append(_share(call, dim, index, axes_size(axes)))
    if offsets:
        raise ShardingError(f"{len(offsets)} sharded_dims_offsets are left over", remedy="give shards + 1 a dimension")
    return sizes


def _definition(call: Call, value: int) -> Call:
    op = call.state.shardings.get(value)
    if op is None:
        raise ShardingError(
            "the sharding is not defined by a shard.sharding of this program",
            cause="its axes must be known when the program is compiled",
        )
    definition = replace(call, op=op)
    if any(definition.signature.get("static_halo_sizes", ())):
        raise ShardingError(
            "the shape of a shard with halos",
            cause="the dialect does not say whether its halos count",
            remedy="ask for the shape under the sharding without halos, and add them",
        )
    return definition


def _values(call: Call, name: str, operands: tuple[int, ...]) -> list[int]:
    values = []
    for number, value in call.mixed(name, operands):
        values.append(value if number is None else call.ctx.constant(number, INDEX))
    return [value for value in values if value is not None]


def _section(offsets: list[int], axes: Axes) -> list[int]:
    """The offsets of one dimension, taken from those that are left."""
    count = axes_size(axes) + 1
    section = offsets[:count]
    if len(section) < count or section != sorted(section) or section[0] < 0:
        raise ShardingError(
            f"sharded_dims_offsets {section[:8]} do not bound {count - 1} shards",
            remedy="give the start of every shard and the end of the last, none before the one before it",
        )
    del offsets[:count]
    return section


def _between(call: Call, section: list[int], index: int) -> int:
    """The size of shard `index`."""
    sizes = [end - start for start, end in itertools.pairwise(section)]
    size = call.ctx.dynamic_slice(call.ctx.integers(sizes, INDEX.dtype), [index], (1,))
    return call.ctx.reshape(size, ())


def _share(call: Call, dim: int, index: int, count: int) -> int:
    """The size of shard `index` of `count`, the larger ones last."""
    ctx = call.ctx
    parts = ctx.constant(count, INDEX)
    small = ctx.binary("subtract", parts, ctx.binary("remainder", dim, parts))
    more = ctx.convert(ctx.compare(index, small, "GE"), INDEX.dtype)
    return ctx.binary("add", ctx.binary("divide", dim, parts), more)
