"""The sdy collectives: they say which axes leave or join which dimension; StableHLO's do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.mesh import Axes
from shardwright.partition.localize.checks import require_axes
from shardwright.partition.localize.collectives import (
    local_all_gather,
    local_all_reduce,
    local_all_slice,
    local_all_to_all,
    local_collective_permute,
    local_reduce_scatter,
)
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, localizer
from shardwright.steps import AllGather, AllReduce, AllSlice, AllToAll, ReduceScatter, Step, ToUnreduced, check_kind

__all__: list[str] = []

_S = TypeVar("_S", bound=Step)


def _step(signature: Signature, kind: type[_S]) -> _S:
    """What a collective does, which is a step of the kind that its name says."""
    assert isinstance(signature.step, kind), "a collective is read and made with its step"
    return signature.step


def _joined(left: Sequence[Axes], right: Sequence[Axes]) -> list[Axes]:
    return [(*one, *other) for one, other in zip(left, right, strict=True)]


@localizer("sdy.all_gather")
def _all_gather(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    mesh = target[0].mesh
    axes = _step(signature, AllGather).axes
    require_axes("the operand", source[0], _joined(target[0].axes, axes))
    value = operands[0]
    for dim, gathered in enumerate(axes):
        value = local_all_gather(ctx, value, gathered, dim, mesh)
    return (value,)


@localizer("sdy.all_slice")
def _all_slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    mesh = target[0].mesh
    axes = _step(signature, AllSlice).axes
    require_axes("the result", target[0], _joined(source[0].axes, axes))
    return (local_all_slice(ctx, operands[0], axes, mesh),)


@localizer("sdy.all_to_all")
def _all_to_all(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Parameters name different dimensions, so one after the other does what all at once would."""
    mesh = target[0].mesh
    lists: list[list[Axes]] = [[()] * source[0].rank, [()] * source[0].rank]
    value = operands[0]
    for axes, source_dim, target_dim in _step(signature, AllToAll).moves:
        lists[0][target_dim], lists[1][source_dim] = axes, axes
        value = local_all_to_all(ctx, value, axes, source_dim, target_dim, mesh)
    for dim, (before, after) in enumerate(
        zip(_joined(source[0].axes, lists[0]), _joined(target[0].axes, lists[1]), strict=True)
    ):
        if wide(before) != wide(after):
            raise ShardingError(f"the all-to-all does not turn dimension {dim} of {source[0]!r} into {target[0]!r}")
    return (value,)


@localizer("sdy.all_reduce")
def _all_reduce(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    step = _step(signature, AllReduce)
    require_axes("the result", target[0], source[0].axes)
    check_kind(step, source[0])
    return (local_all_reduce(ctx, operands[0], step.axes, step.kind, target[0].mesh),)


@localizer("sdy.reduce_scatter")
def _reduce_scatter(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    step = _step(signature, ReduceScatter)
    require_axes("the result", target[0], _joined(source[0].axes, step.axes))
    check_kind(step, source[0])
    value = operands[0]
    for dim, part in enumerate(step.axes):
        value = local_reduce_scatter(ctx, value, part, dim, step.kind, target[0].mesh)
    return (value,)


@localizer("sdy.collective_permute")
def _collective_permute(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    return (local_collective_permute(ctx, operands[0], source[0], target[0]),)


@localizer("sdy.replicated_to_unreduced")
def _replicated_to_unreduced(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """The first device along the axes keeps its value, the others have zeros instead."""
    require_axes("the result", target[0], source[0].axes)
    return (ctx.once(operands[0], _step(signature, ToUnreduced).axes, "sum", target[0].mesh),)


@localizer("sdy.sharding_constraint")
def _to_unreduced(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """The same for any kind, of which the sharding of the result tells."""
    require_axes("the result", target[0], source[0].axes)
    kinds = {p.kind for p in target[0].partial}
    if len(kinds) != 1 or source[0].partial:
        raise ShardingError(f"a constraint from {source[0]!r} to {target[0]!r} is left in the program")
    return (ctx.once(operands[0], target[0].partial_axes, kinds.pop(), target[0].mesh),)


@localizer("sdy.propagation_barrier", "sdy.data_flow_edge")
def _identity(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Ops that only guide propagation."""
    require_axes("the result", target[0], source[0].axes)
    return tuple(operands)
