"""Sharding rules of ops in modules of `mhlo.sharding`, which has none: carried as by Shardy's exports. An op,

    %0 = stablehlo.custom_call @f(%a) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=8}>}

becomes

    %0 = stablehlo.custom_call @f(%a) {mhlo.frontend_attributes = {xla.sdy.sharding_rule = "#sdy.op_sharding_rule<…>"}}

with the others of its attributes.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir, parse_attribute
from shardwright.notation.hlo.sites import FRONTEND, Fail, dictionary

__all__ = ["RULE", "carry_rule", "read_rule"]

RULE = "sdy.sharding_rule"
_KEY = "xla.sdy.sharding_rule"


def carry_rule(op: Any) -> None:
    """Write the rule that an op has as a text."""
    attributes = op.attributes
    others = dictionary(attributes[FRONTEND]) if FRONTEND in attributes else {}
    attributes[FRONTEND] = ir.DictAttr.get({**others, _KEY: ir.StringAttr.get(str(attributes[RULE]))})
    del attributes[RULE]


def read_rule(op: Any, error: Fail) -> None:
    """Give an op the rule that it carries as a text, if it does.

    Raises:
        ShardingError: the text is none of a rule.
    """
    attributes = op.attributes
    others = dictionary(attributes[FRONTEND])
    if _KEY not in others:
        return
    text = others.pop(_KEY)
    try:
        attributes[RULE] = parse_attribute(text.value)
    except (AttributeError, ir.MLIRError) as cause:
        raise error(f"{_KEY} is no sharding rule", f"it is {str(text)[:200]}") from cause
    if others:
        attributes[FRONTEND] = ir.DictAttr.get(others)
    else:
        del attributes[FRONTEND]
