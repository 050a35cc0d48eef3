"""Sharding constraints into reshards: after propagation a constraint is a demand like any other."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import operations
from shardwright.passes.registry import Options, register
from shardwright.propagation.working import CONSTRAINT


@register("sdy-sharding-constraint-to-reshard", "Converts sharding constraints into reshards.", on="func.func")
def sharding_constraint_to_reshard(module: ir.Module, options: Options) -> None:
    """Put an `sdy.reshard` with the same attributes in place of every `sdy.sharding_constraint`."""
    for op in [op for op in operations(module) if op.name == CONSTRAINT]:
        reshard = ir.Operation.create(
            "sdy.reshard",
            results=[op.results[0].type],
            operands=[op.operands[0]],
            attributes=dict(op.attributes.items()),
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        replace_by(op, reshard.results)
