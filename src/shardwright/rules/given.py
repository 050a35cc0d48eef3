"""Which factors of a rule that was given, by a user or by the program, may be computed in parts.

What shardings propagate along and what may be computed in parts are two facts. JAX names in its rules of decompositions
factors that only results have, `([i, j, k])->([i, l], [i])`: shardings of `l` propagate, and parts of `l` cannot be
computed from anything. So of an op whose meaning is not known

- factors that are summed are computed in parts, and so are plain ones that stand in an operand and in every result;
- of a call with the attribute `num_batch_dims`, as JAX writes it, those of its batch dimensions, and no others;
- not those that an operand and the result in the same buffer (`output_operand_aliases`) do not have alike;
- and where sizes stand in the call that would have to change, or in functions that it calls, only what the author of
  the rule says is local.

Of an op whose meaning is known a rule says nothing new: it is computed in parts along factors of the rule that are
those of the op's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shardwright.ir.callees import called_by
from shardwright.ir.signature import Signature
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["batch_factors", "corresponding_factors", "is_opaque", "stated_factors"]

Factors = frozenset[int]

_CUSTOM_CALL = "stablehlo.custom_call"
_KNOWN_DIALECTS = ("stablehlo.", "chlo.", "sdy.")
_CONFIGS = ("backend_config", "mhlo.backend_config", "mhlo.attributes")
_INTEGER = re.compile(r"(?<![\w.])(\d+)(?![\w.])(?!\s*:\s*u?i8\b)")
_ESCAPE = re.compile(r"\\([0-9A-F]{2})")
_ALIAS = re.compile(
    r"output_operand_alias<output_tuple_indices = \[(?P<result>\d*)[^\]]*\],\s*operand_index = (?P<operand>\d+)"
)


def is_opaque(signature: Signature) -> bool:
    """Whether only the author of an op knows what it computes: a custom call, or an op of another dialect."""
    return signature.name == _CUSTOM_CALL or not signature.name.startswith(_KNOWN_DIALECTS)


def stated_factors(signature: Signature, rule: ShardingRule) -> Factors:
    """The factors along which an op that only its author knows may be computed in parts, by the rule given for it."""
    if _batch_dims(signature) is not None:
        shown = batch_factors(signature, rule)
    else:
        shown = (rule.pass_through & _shared(signature, rule) | rule.reduction) - _held(signature, rule)
    stated = rule.local - rule.need_replication - rule.permutation
    return (shown | stated) - _unlike(signature, rule)


def batch_factors(signature: Signature, rule: ShardingRule) -> Factors:
    """The factors of a call's batch dimensions, each index of which is computed by itself; none if none is told."""
    batch = _batch_dims(signature)
    return Factors() if batch is None else rule.pass_through & _shared(signature, rule) & _leading(rule, batch)


def corresponding_factors(rule: ShardingRule, known: ShardingRule, allowed: Factors) -> Factors:
    """The factors of a rule given for an op that are, in all tensors, factors `allowed` of its known rule."""
    places = {place: factor for factor, place in _places(known).items() if factor in allowed}
    pairs = ((factor, places.get(place)) for factor, place in _places(rule).items())
    alike = {factor for factor, other in pairs if other is not None and _kind(rule, factor) == _kind(known, other)}
    return frozenset(alike) - rule.need_replication - rule.permutation


Place = tuple[tuple[int, int, int, int], ...]
"""Where a factor stands: tensor, dimension, the elements that one step of it passes over, its size."""


def _places(rule: ShardingRule) -> dict[int, Place]:
    places: dict[int, list[tuple[int, int, int, int]]] = {}
    for number, mapping in enumerate((*rule.operands, *rule.results)):
        for dim, factors in enumerate(mapping):
            stride = 1
            for factor in reversed(factors):
                places.setdefault(factor, []).append((number, dim, stride, rule.sizes[factor]))
                stride *= rule.sizes[factor]
    return {factor: tuple(place) for factor, place in places.items()}


def _kind(rule: ShardingRule, factor: int) -> bool:
    return factor in rule.reduction


def _shared(signature: Signature, rule: ShardingRule) -> Factors:
    """Factors in an operand and in every result: a result without one would be computed from a part of the operands."""
    operands = Factors().union(*map(factors_in, rule.operands))
    tensors = zip(rule.results, signature.results, strict=True)
    return operands.intersection(*(factors_in(mapping) for mapping, type in tensors if type.is_tensor))


def _batch_dims(signature: Signature) -> int | None:
    """How many leading dimensions of all tensors are batch dimensions, if the call tells."""
    told = signature.get("mhlo.frontend_attributes")
    number = told.get("num_batch_dims") if isinstance(told, dict) else None
    return int(number) if isinstance(number, str) and number.isdecimal() else None


def _leading(rule: ShardingRule, count: int) -> Factors:
    """Factors that are the same one of the first `count` dimensions of every tensor that has them."""
    leading: dict[int, set[int]] = {}
    for mapping in (*rule.operands, *rule.results):
        for dim, factors in enumerate(mapping):
            for factor in factors:
                leading.setdefault(factor, set()).add(dim)
    return frozenset(factor for factor, dims in leading.items() if len(dims) == 1 and max(dims) < count)


def _held(signature: Signature, rule: ShardingRule) -> Factors:
    """Factors of which a call may hold a size elsewhere than in its types: as a number, in bytes, or in a function."""
    texts = [text for text in map(signature.text, _CONFIGS) if text]
    if called_by(signature) or any(map(_is_binary, texts)):
        return frozenset(range(len(rule.sizes)))
    numbers = {int(number) for text in texts for number in _INTEGER.findall(_plain(text))}
    return frozenset(factor for factor, size in _sizes(signature, rule) if size > 1 and size in numbers)


def _sizes(signature: Signature, rule: ShardingRule) -> Iterator[tuple[int, int]]:
    """Every size that changes where a factor is split: its own, its dimensions', its tensors' elements."""
    yield from enumerate(rule.sizes)
    mappings = (*rule.operands, *rule.results)
    for mapping, type in zip(mappings, (*signature.operands, *signature.results), strict=True):
        for factors, size in zip(mapping, type.dims, strict=True):
            for factor in factors:
                yield factor, size
                yield factor, type.elements


def _is_binary(text: str) -> bool:
    """Whether a string has bytes that no text has: a descriptor of which nobody knows what it describes."""
    return any(int(code, 16) < 0x20 and code not in ("09", "0A", "0D") for code in _ESCAPE.findall(text))


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)


def _unlike(signature: Signature, rule: ShardingRule) -> Factors:
    """Factors by which an operand and a result that share a buffer would come to differ in shape."""
    unlike: set[int] = set()
    for alias in _ALIAS.finditer(signature.text("output_operand_aliases") or ""):
        operand, result = rule.operands[int(alias["operand"])], rule.results[int(alias["result"] or 0)]
        for one, other in zip(operand, result, strict=True):
            unlike |= set(one) ^ set(other)
    return frozenset(unlike)
