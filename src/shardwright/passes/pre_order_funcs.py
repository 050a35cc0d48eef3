"""`sdy-pre-order-funcs`: every function before those that it calls."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.call_graph import CallGraph
from shardwright.passes.edits import terminator_of
from shardwright.passes.registry import Options, register

__all__ = ["pre_order_funcs"]


@register("sdy-pre-order-funcs", "Reorders the functions so that each stands before those that it calls.")
def pre_order_funcs(module: ir.Module, options: Options) -> None:
    """Move the functions that have a body to the end of the module, callers first."""
    for function in reversed(CallGraph(module).callees_first()):
        last = terminator_of(module.body)
        if last != function:
            function.move_after(last)
