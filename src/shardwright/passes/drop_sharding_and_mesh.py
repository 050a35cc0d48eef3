"""Shardings and meshes out of a module that no longer needs them, such as a per-device program."""

from __future__ import annotations

import re

from shardwright.ir.carriers import CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.notation.names import STRING, SYMBOL, symbol_name
from shardwright.passes.module_ops import drop_attributes, operations, symbol_of
from shardwright.passes.module_shardings import SHARDING
from shardwright.passes.registry import Options, register

_NOTES = (SHARDING, CARRIED_SHARDING, CARRIED_SHARDINGS)
_LARGE = 16
_WORDS = re.compile(rf"{SYMBOL}|{STRING}")


@register("sdy-drop-sharding-and-mesh", "Removes the meshes and the shardings from the program.")
def drop_sharding_and_mesh(module: ir.Module, options: Options) -> None:
    """Remove the sharding of every op, argument and result, and every mesh to which nothing refers any more."""
    drop_attributes(module, _NOTES)
    named = _symbols(module)
    for op in operations(module):
        if op.name == "sdy.mesh" and symbol_of(op) not in named:
            erase(op)


def _symbols(module: ir.Module) -> set[str]:
    """The symbols that the ops of a module refer to; the name that a mesh has by its definition does not count."""
    symbols: set[str] = set()
    for view in module.body.operations:
        if view.operation.name != "sdy.mesh":
            text = view.operation.get_asm(large_elements_limit=_LARGE, print_generic_op_form=True)
            symbols.update(symbol_name(word) for word in _WORDS.findall(str(text)) if word.startswith("@"))
    return symbols
