"""Modules on meshes with names that are not ASCII, which XLA ends its process at: in letters that it takes."""

from __future__ import annotations

import re

from shardwright.ir.context import ir, load_module, module_text

__all__ = ["with_ascii_names"]

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED = re.compile(r"\\[89A-F][0-9A-F]")


def with_ascii_names(module: ir.Module) -> ir.Module:
    """The module itself, or if a mesh or an axis has such a name, the same with another one wherever that stands."""
    meshes = [str(view) for view in module.body.operations if view.operation.name == "sdy.mesh"]
    names = {name for mesh in meshes for name in _QUOTED.findall(mesh) if not _is_ascii(name)}
    if not names:
        return module
    text = module_text(module)
    for name in sorted(names):
        text = text.replace(name, _unused(name, text))
    return load_module(text)


def _is_ascii(name: str) -> bool:
    """Whether a name is of ASCII letters, as MLIR writes it: that of a mesh with escapes, that of an axis as it is."""
    return name.isascii() and not _ESCAPED.search(name)


def _unused(name: str, text: str) -> str:
    """An ASCII name in quotes that does not stand in a text."""
    made = re.sub(r"\W", "_", name[1:-1].encode("ascii", "backslashreplace").decode())
    while f'"{made}"' in text:
        made += "_"
    return f'"{made}"'
