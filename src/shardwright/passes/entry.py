"""The function that a module is called by, and those that something in it names."""

from __future__ import annotations

from typing import Any

from shardwright.ir.callees import symbols_of
from shardwright.ir.context import ir
from shardwright.ir.handles import attributes_of
from shardwright.ir.opaque import attribute_text
from shardwright.passes.module_ops import functions, operations, symbol_of
from shardwright.passes.module_shardings import SHARDING

__all__ = ["entries", "named_symbols"]


def entries(module: ir.Module) -> list[Any]:
    """`@main`; without one, the functions that no op names (the only one, where there is one)."""
    defined = functions(module)
    main = [function for function in defined if symbol_of(function) == "main"]
    if main or len(defined) < 2:
        return main or defined
    named = named_symbols(module)
    return [function for function in defined if symbol_of(function) not in named]


def named_symbols(module: ir.Module) -> set[str]:
    """The symbols that ops name: what they call, what custom calls call, meshes.

    Those in the shardings of values are left out: they are meshes, and as many as there are ops.
    """
    return {
        name
        for op in operations(module)
        for key, value in attributes_of(op).items()
        if key != SHARDING
        for name in symbols_of(attribute_text(value))
    }
