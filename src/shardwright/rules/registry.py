"""Op name → sharding rule.

A family file declares its rules with `@sharding_rule("stablehlo.transpose")` on a function from signature to rule;
importing `shardwright.rules.families` registers all of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.rule import ShardingRule
from shardwright.rules.text import ATTRIBUTE, parse_rule

__all__ = ["beyond_shardy", "registered_ops", "rule_for", "sharding_rule"]

RuleFunction = Callable[[Signature], ShardingRule | None]
Function = TypeVar("Function", bound=RuleFunction)

_rules: dict[str, RuleFunction] = {}
_beyond: set[str] = set()


def sharding_rule(*names: str, beyond_shardy: bool = False) -> Callable[[Function], Function]:
    """Register a function from signature to rule for the ops called `names`. It returns `None` where no rule holds.

    `beyond_shardy` says that the C++ Shardy has no rule for these ops, so that comparisons leave them out.
    """

    def register(function: Function) -> Function:
        for name in names:
            _rules[name] = function
        if beyond_shardy:
            _beyond.update(names)
        return function

    return register


def registered_ops() -> tuple[str, ...]:
    """The names of all ops that have a rule."""
    return tuple(_rules)


def beyond_shardy() -> frozenset[str]:
    """The names of the ops that have a rule here and none in the C++ Shardy."""
    return frozenset(_beyond)


@memoize
def rule_for(signature: Signature) -> ShardingRule | None:
    """The sharding rule of an op, or `None` where it has none (and is computed replicated).

    A rule given by the program itself, as the attribute `sdy.sharding_rule`, comes first.
    """
    given = signature.text(ATTRIBUTE)
    if given is not None:
        return parse_rule(given)
    function = _rules.get(signature.name)
    return function(signature) if function else None
