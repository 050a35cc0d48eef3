"""Sharding rules that the compiler wrote, out of the module; those that users wrote stay."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.module_ops import functions, operations
from shardwright.passes.registry import Options, register

_RULE = "sdy.sharding_rule"
_CUSTOM = ", custom>"


@register("sdy-drop-sharding-rules", "Drops the sharding rules of all ops, custom ones apart.", on="func.func")
def drop_sharding_rules(module: ir.Module, options: Options) -> None:
    """Remove `sdy.sharding_rule` from every op unless it is custom."""
    custom: dict[object, bool] = {}
    for function in functions(module):
        for op in operations(function):
            rule = op.attributes.get(_RULE)
            if rule is None:
                continue
            if rule not in custom:
                custom[rule] = str(rule).endswith(_CUSTOM)
            if not custom[rule]:
                del op.attributes[_RULE]
