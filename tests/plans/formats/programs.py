"""Programs of parameters alone, for formats that speak of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import shardwright as sw

__all__ = ["layouts", "program", "sharded"]


def program(shapes: Mapping[str, tuple[int, ...]]) -> sw.Program:
    """A program that takes arguments of these names and shapes, and gives the first back."""
    types = {name: f"tensor<{''.join(f'{size}x' for size in shape)}f32>" for name, shape in shapes.items()}
    taken = ", ".join(f"%{name}: {type}" for name, type in types.items())
    first, type = next(iter(types.items()))
    return sw.load(f"func.func @main({taken}) -> {type} {{\n  return %{first} : {type}\n}}\n")


def sharded(known: sw.Program, mesh: Any, lie: Mapping[str, Any]) -> sw.Plan:
    """The plan in which arguments lie so."""
    args: dict[str | int, Any] = {}
    args.update(lie)
    return known.shard(mesh, args)


def layouts(plan: sw.Plan, *names: str) -> dict[str, str]:
    """How arguments lie, as text; all that are split where none are named."""
    lie: dict[str, Any] = {name: one for name, one in plan.arguments.items() if not one.is_replicated}
    return {name: repr(plan.arguments[name]) for name in names or lie}
