"""Collectives that hand data round as it is: gathering, slicing, scattering, exchanging, broadcasting."""

from __future__ import annotations

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.partition.localize.collectives import local_all_gather, local_all_slice, local_all_to_all
from shardwright.partition.processes.call import Call
from shardwright.partition.processes.groups import part, permute
from shardwright.partition.processes.registry import process

__all__: list[str] = []


@process("shard.all_gather", "shard.gather")
def gather(call: Call) -> list[int]:
    """The parts of the group joined along `gather_axis`; a gather gives them to more than its root."""
    if call.signature.name == "shard.gather":
        call.member("root")
    return [local_all_gather(call.ctx, call.value, call.group, call.dimension("gather_axis"), call.mesh)]


@process("shard.all_slice")
def all_slice(call: Call) -> list[int]:
    """This member's part of its own operand."""
    dim = _divided(call, call.dimension("slice_axis"))
    cut = [call.group if number == dim else () for number in range(call.ctx.type(call.value).rank)]
    return [local_all_slice(call.ctx, call.value, cut, call.mesh)]


@process("shard.all_to_all")
def all_to_all(call: Call) -> list[int]:
    """Cut along `split_axis`, a part to every member; what arrives is joined along `concat_axis`."""
    split, join = _divided(call, call.dimension("split_axis")), call.dimension("concat_axis")
    return [local_all_to_all(call.ctx, call.value, call.group, join, split, call.mesh)]


@process("shard.scatter")
def scatter(call: Call) -> list[int]:
    """The root's operand cut along a dimension, a part to every member: an all-to-all of which one part is kept."""
    ctx, group, root = call.ctx, call.group, call.member("root")
    dim = _divided(call, call.dimension("scatter_dim", "scatter_axis"))
    sizes = list(ctx.type(call.value).dims)
    sizes[dim] //= axes_size(group)
    starts = [root * size if number == dim else 0 for number, size in enumerate(sizes)]
    return [part(ctx, local_all_to_all(ctx, call.value, group, dim, dim, call.mesh), starts, sizes)]


@process("shard.broadcast")
def broadcast(call: Call) -> list[int]:
    """The root's operand, passed on by all who have it to as many again, until everyone has it.

    XLA has no broadcast on CPU devices. A sum with zeros would lose the sign of zero, and gathering needs memory for
    every member's operand.
    """
    ctx, mesh, group, root, value = call.ctx, call.mesh, call.group, call.member("root"), call.value
    count = axes_size(group)
    if count == 1:
        return [value]
    distance = _distance(call, root, count)
    have = 1
    while have < count:
        sender = [(member - root) % count for member in range(count)]
        targets = [(root + far + have) % count if far < min(have, count - have) else -1 for far in sender]
        received = permute(ctx, value, mesh, group, targets)
        far = ctx.compare(distance, ctx.constant(have, ctx.type(distance)), "GE")
        value = ctx.select(far, received, value)
        have *= 2
    return [value]


def _distance(call: Call, root: int, count: int) -> int:
    """How many members after the root, round the end, this device comes."""
    index = call.ctx.axis_index(call.group, call.mesh)
    type = call.ctx.type(index)
    if root == 0:
        return index
    moved = call.ctx.binary("add", index, call.ctx.constant(count - root, type))
    return call.ctx.binary("remainder", moved, call.ctx.constant(count, type))


def _divided(call: Call, dim: int) -> int:
    """`dim`, which the group must divide evenly."""
    type, count = call.ctx.type(call.value), axes_size(call.group)
    if type.dims[dim] % count:
        raise ShardingError(
            f"dimension {dim} of {type} does not divide into {count} parts",
            remedy="pad it to a multiple of the size of the group",
        )
    return dim
