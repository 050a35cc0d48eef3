"""What propagation noted down for people to read, out of the module."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.module_ops import drop_attributes
from shardwright.passes.registry import Options, register

_NOTES = (
    "sdy.propagation_edges",
    "sdy.block_arg_propagation_edges",
    "sdy.result_propagation_edges",
    "sdy.sharding_origins",
    "sdy.block_arg_sharding_origins",
    "sdy.result_sharding_origins",
)


@register(
    "sdy-remove-propagation-debug-info", "Removes propagation debug info: propagation edges and sharding origins."
)
def remove_propagation_debug_info(module: ir.Module, options: Options) -> None:
    """Remove the notes from ops, and from the arguments and results of functions."""
    drop_attributes(module, _NOTES)
