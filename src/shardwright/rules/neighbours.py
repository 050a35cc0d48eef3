"""The few rules that depend on how an op's operands are made, which its signature does not tell.

- A *concatenate of slices* (a rotation, a halo) moves data between neighbours; any other gathers it.
- A *dynamic_update_slice at constant indices* needs no whole update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardwright.ir.graph import Op
from shardwright.memo import memoize
from shardwright.rules.registry import rule_for
from shardwright.rules.rule import ShardingRule
from shardwright.rules.traits import facts_of

__all__ = ["rule_of"]

Definition = Callable[[int], Op | None]
"""From a value to the op that makes it; `None` for arguments."""


def rule_of(op: Op, definition: Definition) -> ShardingRule | None:
    """The sharding rule of an op in its program; `definition` gives the op that makes a value."""
    rule = rule_for(op.signature)
    refine = _REFINE.get(op.signature.name)
    if refine is None or rule is None or rule.custom:
        return rule
    return refine(op, rule, definition)


def _concatenate(op: Op, rule: ShardingRule, definition: Definition) -> ShardingRule:
    return _permuting(rule) if _is_rotation(op, definition) else rule


def _is_rotation(op: Op, definition: Definition) -> bool:
    """Whether all operands are slices, or all of them one value and slices of it."""
    wholes: set[int] = set()
    sliced: set[int] = set()
    for value in op.operands:
        made = definition(value)
        if made is not None and made.signature.name == "stablehlo.slice":
            sliced.add(made.operands[0])
        else:
            wholes.add(value)
    return bool(sliced) and (not wholes or (len(wholes) == 1 and sliced == wholes))


def _dynamic_update_slice(op: Op, rule: ShardingRule, definition: Definition) -> ShardingRule:
    made = (definition(value) for value in op.operands[2:])
    constant = all(index is not None and facts_of(index.signature.name).literal for index in made)
    return _free(rule) if constant else rule


@memoize
def _permuting(rule: ShardingRule) -> ShardingRule:
    return replace(rule, need_replication=frozenset(), permutation=rule.need_replication)


@memoize
def _free(rule: ShardingRule) -> ShardingRule:
    return replace(rule, need_replication=frozenset())


_REFINE: dict[str, Callable[[Op, ShardingRule, Definition], ShardingRule]] = {
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
