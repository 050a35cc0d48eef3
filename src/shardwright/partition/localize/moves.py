"""The sdy collectives: they say which axes leave or join which dimension; StableHLO's do it."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.cost.nodes import far_first
from shardwright.errors import ShardingError
from shardwright.ir.ops import STEPS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.emit import step_of
from shardwright.partition.localize.checks import require_axes
from shardwright.partition.localize.collectives import (
    local_all_gather,
    local_all_reduce,
    local_all_slice,
    local_collective_permute,
    local_exchange,
    local_reduce_scatter,
    local_send,
    local_unslice,
)
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.permutes import local_permute_in_parts
from shardwright.partition.localize.registry import Shardings, localizer
from shardwright.sharding import TensorSharding, same_placement
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Send,
    ShardedToUnreduced,
    Step,
    ToUnreduced,
)

__all__ = ["local_step"]


def local_step(ctx: Local, value: int, step: Step | Send, before: TensorSharding, after: TensorSharding) -> int:
    """One device's part of a tensor after a step from `before` to `after`, from its part before it.

    What is gathered or scattered along several dimensions is so along one after the other: while there is little of it,
    among devices that are far apart.
    """
    mesh = after.mesh
    match step:
        case AllGather(lists):
            for dim in far_first(lists, mesh):
                value = local_all_gather(ctx, value, lists[dim], dim, mesh)
        case AllSlice(lists):
            value = local_all_slice(ctx, value, lists, mesh)
        case AllToAll():
            value = local_exchange(ctx, value, step, before, mesh)
        case AllReduce(axes, kind):
            value = local_all_reduce(ctx, value, axes, kind, mesh)
        case ReduceScatter(lists, kind):
            for dim in reversed(far_first(lists, mesh)):
                value = local_reduce_scatter(ctx, value, lists[dim], dim, kind, mesh)
        case CollectivePermute(target) if step.parts(before) > 1:
            value = local_permute_in_parts(ctx, value, before, target)
        case CollectivePermute(target):
            value = local_collective_permute(ctx, value, before, target)
        case Send(axes=axes, routes=routes):
            value = local_send(ctx, value, axes, routes, mesh)
        case ToUnreduced(axes, kind):
            value = ctx.once(value, axes, kind, mesh)
        case ShardedToUnreduced(lists):
            value = local_unslice(ctx, value, lists, mesh)
    return value


@localizer(*STEPS, "sdy.sharding_constraint")
def _collective(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    (before,), (after,) = source, target
    step = step_of(signature, before, after)
    _require(signature.name, step, before, after)
    return (local_step(ctx, operands[0], step, before, after),)


@memoize
def _require(name: str, step: Step, before: TensorSharding, after: TensorSharding) -> None:
    reached = step.apply(before)
    if not same_placement(reached, after):
        raise ShardingError(f"{name} takes {before!r} to {reached!r}, not to {after!r}")


@localizer("sdy.propagation_barrier", "sdy.data_flow_edge")
def _identity(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Ops that only guide propagation."""
    require_axes("the result", target[0], source[0].axes)
    return tuple(operands)
