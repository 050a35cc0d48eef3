"""The function that a module is called by."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.attached import functions, operations, symbol_of
from shardwright.passes.call_graph import callee_of

__all__ = ["entries"]


def entries(module: ir.Module) -> list[Any]:
    """`@main`; without one, the functions that no other calls (the only one, where there is one)."""
    found = functions(module)
    main = [function for function in found if symbol_of(function) == "main"]
    if main or len(found) < 2:
        return main or found
    called = {callee_of(op) for op in operations(module) if op.name == "func.call"}
    return [function for function in found if symbol_of(function) not in called]
