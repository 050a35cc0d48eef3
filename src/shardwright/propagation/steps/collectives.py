"""Collectives that a program states, once all shardings are settled.

A program states collectives in terms of the shardings that it states. Where it left one open, or a dimension does not
divide, propagation changes it, and what the collective says of it need not hold any more. It asks for the layout of its
result, as all of them do in a program that is not explicit yet, so a reshard says the same.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.axes import merge_axes, subtract_axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.propagation.working import COLLECTIVES, SHARDED_TO_UNREDUCED, Working
from shardwright.sharding import TensorSharding
from shardwright.steps import CollectivePermute, is_in_sdy

__all__ = ["reshard_where_unfit"]


def reshard_where_unfit(working: Working) -> None:
    """Write collectives as reshards that do not lead from the sharding of their operand to that of their result."""
    if COLLECTIVES.isdisjoint(working.special):
        return
    shardings = working.shardings
    for op in working.block.walk():
        if op.signature.name in COLLECTIVES:
            before, after = shardings[op.operands[0]], shardings[op.results[0]]
            if before is not None and after is not None and not _leads(op, before, after):
                op.signature = replace(op.signature, name="sdy.reshard", step=None)


def _leads(op: Op, before: TensorSharding, after: TensorSharding) -> bool:
    if op.signature.name == SHARDED_TO_UNREDUCED:
        return _unshards(before.closed(), after.closed())
    step = op.signature.step or CollectivePermute(after)
    try:
        return step.apply(before) == after.closed() and is_in_sdy(step, before)
    except ShardingError:
        return False


def _unshards(before: TensorSharding, after: TensorSharding) -> bool:
    """Whether the axes that leave the ends of dimensions are those along which a sum is awaited more."""
    left = [subtract_axes(held, kept) for held, kept in zip(before.axes, after.axes, strict=True)]
    ends = [merge_axes((*kept, *gone)) for kept, gone in zip(after.axes, left, strict=True)]
    awaited = subtract_axes(after.partial_axes, before.partial_axes)
    return ends == list(before.axes) and before.mesh.in_order(sum(left, ())) == after.mesh.in_order(awaited)
