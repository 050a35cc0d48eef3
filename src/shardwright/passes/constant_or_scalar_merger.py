"""Constants that ended up alike, one again: those that import had split for propagation.

Alike are constants with the same attributes, shardings among them, and broadcasts of one scalar with the same
attributes and type, when they stand in the same block.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.handles import attributes_of
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import functions, operations, static_shape
from shardwright.passes.registry import Options, register
from shardwright.rules.traits import facts_of


@register(
    "sdy-constant-or-scalar-merger",
    "Merges identical constants and scalar expansions with matching shardings.",
    on="func.func",
)
def constant_or_scalar_merger(module: ir.Module, options: Options) -> None:
    """Let the first of those alike stand for all of them."""
    for function in functions(module):
        _merge(function)


def _merge(function: Any) -> None:
    seen: dict[Any, Any] = {}
    for op in operations(function, inner_first=True):
        key = _key(op)
        if key is None:
            continue
        first = seen.setdefault(key, op)
        if first is not op:
            replace_by(op, first.results)


def _key(op: Any) -> Any | None:
    """What makes ops alike; `None` for an op that is never merged."""
    if facts_of(op.name).literal:
        return op.block, op.results[0].type, frozenset(attributes_of(op).items())
    if op.name == "stablehlo.broadcast_in_dim" and static_shape(op.operands[0].type) == ():
        return op.block, op.operands[0], op.results[0].type, frozenset(attributes_of(op).items())
    return None
