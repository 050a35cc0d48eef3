"""Sharding rules as text, in the notation of the `sdy` dialect.

    #sdy.op_sharding_rule<([i, kl], [l, j])->([i, j]) {i=8, j=4, k=2, l=3} reduction={l}>

Factor symbols are `i` … `z`, then `z_1`, `z_2`, …; factors that make up one dimension are written together.
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.memo import memoize
from shardwright.notation.sdy.factors import FACTOR, factor_symbol, factors_of
from shardwright.rules.rule import ShardingRule, TensorMapping

__all__ = ["ATTRIBUTE", "format_rule", "parse_rule"]

ATTRIBUTE = "sdy.sharding_rule"
"""The attribute by which a program gives an op's rule itself."""

_HEAD = "#sdy.op_sharding_rule<"
_SETS = {
    "reduction": "reduction",
    "need_replication": "need_replication",
    "permutation": "permutation",
    "blocked_propagation": "blocked",
}
_RULE = re.compile(
    r"^\s*(?:\#sdy\.op_sharding_rule)?\s*<\s*\((?P<operands>[^()]*)\)\s*->\s*\((?P<results>[^()]*)\)"
    r"\s*(?:\{(?P<sizes>[^{}]*)\})?(?P<rest>.*)>\s*$",
    re.DOTALL,
)
_SET = re.compile(r"\s*(?P<name>[a-z_]+)\s*=\s*\{(?P<factors>[^{}]*)\}")


def format_rule(rule: ShardingRule) -> str:
    """The rule as MLIR attribute text."""
    sizes = ", ".join(f"{factor_symbol(factor)}={size}" for factor, size in enumerate(rule.sizes))
    parts = [f"({_tensors(rule.operands)})->({_tensors(rule.results)})"]
    if sizes:
        parts.append(f"{{{sizes}}}")
    for name, field in _SETS.items():
        factors = sorted(getattr(rule, field))
        if factors:
            parts.append(f"{name}={{{', '.join(map(factor_symbol, factors))}}}")
    return f"{_HEAD}{' '.join(parts)}{', custom' if rule.custom else ''}>"


@memoize
def parse_rule(text: str) -> ShardingRule:
    """The rule that MLIR attribute text holds.

    Raises:
        ShardingError: the text is not a rule, or names a factor it gives no size.
    """
    match = _RULE.match(text)
    if match is None:
        raise _error(text, "it does not have the form <([i, jk])->([i]) {i=2, j=4, k=8} reduction={j}>")
    sizes = _sizes(text, match["sizes"] or "")
    rest = match["rest"]
    custom = re.search(r",\s*custom\s*$", rest)
    sets = _sets(text, rest[: custom.start()] if custom else rest)
    unknown = set().union(*sets.values()) if sets else set()
    operands = _mappings(match["operands"])
    results = _mappings(match["results"])
    unknown |= {factor for tensor in (*operands, *results) for dim in tensor for factor in dim}
    unknown -= set(range(len(sizes)))
    if unknown:
        raise _error(text, f"factor {factor_symbol(min(unknown))} has no size")
    return ShardingRule(sizes, operands, results, custom=custom is not None, **sets)


def _error(text: str, cause: str) -> ShardingError:
    return ShardingError(f"not a sharding rule: {text}", cause=cause, remedy=f"correct the op's {ATTRIBUTE} attribute")


def _tensors(mappings: tuple[TensorMapping, ...]) -> str:
    return ", ".join(f"[{', '.join(_dim(dim) for dim in tensor)}]" for tensor in mappings)


def _dim(factors: tuple[int, ...]) -> str:
    return "".join(map(factor_symbol, factors))


def _mappings(text: str) -> tuple[TensorMapping, ...]:
    tensors = re.findall(r"\[([^\[\]]*)\]", text)
    return tuple(tuple(map(factors_of, tensor.split(","))) if tensor.strip() else () for tensor in tensors)


def _sizes(text: str, body: str) -> tuple[int, ...]:
    pairs = re.findall(rf"({FACTOR})\s*=\s*(\d+)", body)
    if [factors_of(symbol)[0] for symbol, _ in pairs] != list(range(len(pairs))):
        raise _error(text, "its factors are not i, j, k, … in this order")
    return tuple(int(size) for _, size in pairs)


def _sets(text: str, rest: str) -> dict[str, frozenset[int]]:
    sets: dict[str, frozenset[int]] = {}
    at = 0
    while rest[at:].strip():
        match = _SET.match(rest, at)
        if match is None or match["name"] not in _SETS:
            raise _error(text, f"{rest[at:].strip()!r} is not one of {', '.join(_SETS)}")
        sets[_SETS[match["name"]]] = frozenset(factors_of(match["factors"]))
        at = match.end()
    return sets
