"""What `-cse` does with ops of the `shard` dialect, beside what MLIR's pass does with others.

One that computes what another one does that dominates it is that; one that nothing reads goes. What was read by such
alone stays, as MLIR's pass leaves it.

Source: MLIR's pass `-cse`, and the effects of the ops of its `shard` dialect.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import functions
from shardwright.passes.shard_dialect import erase_dead, is_free, shard_ops

__all__ = ["share_shard_ops"]

Known = dict[object, Any]
"""Ops by what they compute."""


def share_shard_ops(module: ir.Module) -> bool:
    """Let each op of the dialect be computed once, and none that nothing reads; whether any was computed before."""
    unread = {
        op for op in shard_ops(module.operation) if is_free(op) and not any(any(result.uses) for result in op.results)
    }
    changed = False
    for function in functions(module):
        for block in function.regions[0].blocks:
            changed |= _shared(block, {}, unread)
    erase_dead([*unread], lambda _: True)
    return changed


def _shared(block: Any, ahead: Known, unread: set[Any]) -> bool:
    """Share what a block computes with what is known ahead of it, and that with what its ops hold."""
    found, changed = dict(ahead), False
    for op in [view.operation for view in block.operations]:
        if is_free(op) and op not in unread:
            other = found.setdefault(_computes(op), op)
            if other is not op:
                replace_by(op, other.results)
                changed = True
                continue
        for region in op.regions:
            for inner in region.blocks:
                changed |= _shared(inner, found, unread)
    return changed


def _computes(op: Any) -> object:
    attributes = tuple(sorted((name, str(attribute)) for name, attribute in op.attributes.items()))
    return op.name, tuple(op.operands), attributes, tuple([str(result.type) for result in op.results])
