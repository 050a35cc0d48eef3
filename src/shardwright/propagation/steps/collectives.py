"""Collectives that a program states, once all shardings are settled.

A program states collectives in terms of the shardings that it states. Where it left one open, or a dimension does not
divide, propagation changes it, and what the collective says of it need not hold any more. It asks for the layout of its
result, as all of them do in a program that is not explicit yet, so a reshard says the same.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.ir.ops import STEPS
from shardwright.propagation.working import Working
from shardwright.sharding import TensorSharding
from shardwright.steps import CollectivePermute, is_in_sdy

__all__ = ["reshard_where_unfit"]


def reshard_where_unfit(working: Working) -> None:
    """Write collectives as reshards that do not lead from the sharding of their operand to that of their result."""
    if working.special.keys().isdisjoint(STEPS):
        return
    shardings = working.shardings
    for op in working.block.walk():
        if op.signature.name in STEPS:
            before, after = shardings[op.operands[0]], shardings[op.results[0]]
            if before is not None and after is not None and not _leads(op, before, after):
                op.signature = replace(op.signature, name="sdy.reshard", step=None)


def _leads(op: Op, before: TensorSharding, after: TensorSharding) -> bool:
    step = op.signature.step or CollectivePermute(after)
    try:
        return step.apply(before) == after.closed() and is_in_sdy(step, before)
    except ShardingError:
        return False
