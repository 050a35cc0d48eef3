"""Sharding groups, which propagation has obeyed, out of the module."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.passes.module_ops import operations
from shardwright.passes.registry import Options, register
from shardwright.propagation.working import GROUP


@register("sdy-remove-sharding-groups", "Removes the sharding groups after propagation.")
def remove_sharding_groups(module: ir.Module, options: Options) -> None:
    """Erase every `sdy.sharding_group`."""
    for op in [op for op in operations(module) if op.name == GROUP]:
        erase(op)
