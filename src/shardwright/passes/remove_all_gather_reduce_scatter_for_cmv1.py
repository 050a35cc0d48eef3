"""Gathers before a matrix product and scattered reductions after one left to XLA's collective matmul, version 1."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import functions, operations
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value
from shardwright.passes.registry import Options, register
from shardwright.rules.traits import facts_of


@register(
    "sdy-remove-all-gather-reduce-scatter-for-cmv1",
    "Removes all-gather before and reduce-scatter after a dot, which collective matmul V1 does itself.",
    on="func.func",
)
def remove_all_gather_reduce_scatter_for_cmv1(module: ir.Module, options: Options) -> None:
    """Let a dot read what is gathered for it alone, and give what scatters its result the dot's result itself."""
    shardings = Shardings(module)
    for function in functions(module):
        for op in operations(function, inner_first=True):
            if op.name == "sdy.all_gather" and _is_for_a_dot(op):
                replace_by(op, op.operands)
            elif op.name == "sdy.reduce_scatter" and _scatters_a_dot(op, shardings):
                dot = op.operands[0].owner.operation
                dot.attributes[SHARDING] = per_value(shardings.read(op.attributes["out_sharding"]))
                replace_by(op, op.operands)


def _is_for_a_dot(op: Any) -> bool:
    users = [use.owner.operation for use in op.results[0].uses]
    return len(users) == 1 and facts_of(users[0].name).product


def _scatters_a_dot(op: Any, shardings: Shardings) -> bool:
    """Whether the operand is a dot whose partial sums are not said to be kept."""
    value = op.operands[0]
    if isinstance(value, ir.BlockArgument) or not facts_of(value.owner.operation.name).product:
        return False
    sharding = shardings.of(value)
    return sharding is None or not sharding.partial
