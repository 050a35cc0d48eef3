"""Values sent from device to device."""

from __future__ import annotations

from collections import deque

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.partition.processes.call import Call, Sent
from shardwright.partition.processes.groups import permute, step_targets
from shardwright.partition.processes.registry import process

__all__: list[str] = []


@process("shard.shift")
def shift(call: Call) -> list[int]:
    """The value of the device `offset` before this one along `shift_axis`; zeros where there is none."""
    mesh, number = call.mesh, call.integer("shift_axis")
    if number not in call.integers("grid_axes", ()):
        raise ShardingError(f"shift_axis = {number} is not one of grid_axes", remedy="shift along an axis of the group")
    axis = call.group[call.integers("grid_axes").index(number)]
    targets = step_targets(axis.size, call.integer("offset"), call.signature.get("rotate", False) is True)
    return [permute(call.ctx, call.value, mesh, (axis,), targets)]


@process("shard.send")
def send(call: Call) -> list[int]:
    """The operand, which is on its way from here on."""
    key = (call.mesh, call.group, call.ctx.type(call.value))
    call.state.sent.setdefault(key, deque()).append(Sent(call.value, call.member("destination"), call.op))
    return [call.value]


@process("shard.recv")
def recv(call: Call) -> list[int]:
    """What the source sent, on the device it was sent to; the operand elsewhere."""
    ctx, group = call.ctx, call.group
    if call.signature.get("source") is None:
        raise ShardingError("a recv from any source", cause="no device is named", remedy="give its source")
    source = call.member("source")
    waiting = call.state.sent.get((call.mesh, group, ctx.type(call.value)))
    if not waiting:
        raise ShardingError(
            "nothing was sent that this could receive",
            cause="no shard.send on the same grid and axes, of the same type, is open before it in its block",
            remedy="put the send before it",
        )
    sent = waiting.popleft()
    targets = [sent.destination if member == source else -1 for member in range(axes_size(group))]
    received = permute(ctx, sent.value, call.mesh, group, targets)
    index = ctx.axis_index(group, call.mesh)
    here = ctx.compare(index, ctx.constant(sent.destination, ctx.type(index)), "EQ")
    return [ctx.select(here, received, call.value)]
