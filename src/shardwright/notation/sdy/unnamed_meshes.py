"""Meshes that a module declares and nothing names, of another size than those that it is on: they say nothing of it."""

from __future__ import annotations

import re

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.notation.names import SYMBOL, symbol_name
from shardwright.notation.sdy.sharding import parse_mesh

__all__ = ["drop_unnamed_meshes"]

_NAMED = re.compile(rf"(?<![\w$.]){SYMBOL}")
_FEW = 16
"""Elements from which on those of a constant are not printed."""


def drop_unnamed_meshes(module: ir.Module) -> bool:
    """Take out of a module the meshes that nothing names and that have another size than what is named; whether any.

    Where nothing is named, any of them may be meant, and all stay.
    """
    ops = [view.operation for view in module.body.operations]
    meshes = {}
    for op in ops:
        if op.name == "sdy.mesh":
            symbol = ir.StringAttr(op.attributes["sym_name"]).value
            mesh = parse_mesh(str(op.attributes["mesh"]), symbol)
            if mesh.axes:
                meshes[symbol] = (op, mesh.size)
    if len({size for _, size in meshes.values()}) < 2:
        return False
    texts = [str(op.get_asm(large_elements_limit=_FEW)) for op in ops if op.name != "sdy.mesh"]
    named = {symbol_name(symbol) for text in texts for symbol in _NAMED.findall(text)}
    sizes = {size for symbol, (_, size) in meshes.items() if symbol in named}
    unnamed = [op for symbol, (op, size) in meshes.items() if symbol not in named and size not in sizes]
    if not sizes:
        return False
    for op in unnamed:
        erase(op)
    return bool(unnamed)
