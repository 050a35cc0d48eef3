"""Along which factors of its rule an op may be computed in parts, with no communication inside.

Pass-through factors split every tensor alike. Reduction factors leave a partial result, whose kind comes from the op.
Everything else, and whatever a local form is not known for, is not split: its operands are gathered first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.ir.callees import called_by
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.convolution import convolution_dims
from shardwright.rules.given import corresponding_factors, is_opaque, stated_factors
from shardwright.rules.local import local_factors
from shardwright.rules.registry import is_given, known_rule, rule_for
from shardwright.rules.rule import ShardingRule
from shardwright.rules.traits import facts_of

__all__ = ["Splits", "check_supported", "linear_operands", "splits_of"]


@dataclass(frozen=True, slots=True)
class Splits:
    """How an op may be computed in parts.

    Attributes:
        rule: The op's sharding rule.
        allowed: Factors along which it may be split.
        kind: Reduction kind of the result along its reduction factors.
        linear: Sets of operands in which, all others fixed, the op is linear: see `linear_operands`.
    """

    rule: ShardingRule
    allowed: frozenset[int]
    kind: str
    linear: tuple[tuple[int, ...], ...]


_LOCALIZED = frozenset({"stablehlo.dynamic_update_slice", "stablehlo.scatter"})
"""Their local forms work out which part of an update falls into a shard (`localize/update.py`, `scatter.py` there)."""

_SPLITTABLE_CALLS = frozenset(
    {
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "TopK",
        "annotate_device_placement",
        "mhlo.acos",
        "mhlo.asin",
        "mhlo.atan",
        "mhlo.erf",
        "mhlo.erf_inv",
        "mhlo.topk",
    }
)
"""Custom calls whose work on a shard is the same call on the shard."""

_COMPARING_CALLS = frozenset({"ApproxTopK"})
"""Such calls of a function that compares two elements."""


def check_supported(signature: Signature, location: Callable[[], str]) -> None:
    """Refuse ops that have no meaning in a program written for one device.

    Raises:
        ShardingError: naming the op and its place.
    """
    cause = facts_of(signature.name).refused
    if cause:
        raise ShardingError(
            f"{signature.name} cannot be partitioned",
            op=signature.label,
            location=location(),
            cause=cause,
            remedy="write the program for one device, or put the op inside sdy.manual_computation",
        )


@memoize
def splits_of(signature: Signature) -> Splits | None:
    """How an op may be split, or `None` if it is computed whole on every device."""
    rule = rule_for(signature)
    if rule is None:
        return None
    if not is_given(signature):
        return _known_splits(signature, rule)
    known = known_rule(signature)
    own = _known_splits(signature, known) if known is not None else None
    if own is not None:
        return Splits(rule, corresponding_factors(rule, own.rule, own.allowed), own.kind, own.linear)
    return Splits(rule, stated_factors(signature, rule), "sum", ()) if is_opaque(signature) else None


def _known_splits(signature: Signature, rule: ShardingRule) -> Splits | None:
    """How an op may be split by the rule that it has by its meaning."""
    if signature.name == "stablehlo.custom_call" and not _is_splittable_call(signature):
        return None
    kind = _reduction_kind(signature)
    allowed = rule.pass_through if signature.name in _LOCALIZED else local_factors(signature)
    if kind is not None:
        allowed |= rule.reduction - rule.need_replication - rule.permutation
    return Splits(rule, allowed - _unsupported(signature, rule), kind or "sum", linear_operands(signature))


def _is_splittable_call(signature: Signature) -> bool:
    """A call that calls functions is whole, unless these are known to see single elements only."""
    target = signature.get("call_target_name")
    return target in _COMPARING_CALLS or (target in _SPLITTABLE_CALLS and not called_by(signature))


def _reduction_kind(signature: Signature) -> str | None:
    if not signature.bodies:
        return "sum"
    return signature.bodies[0].reduction


def _unsupported(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """Factors the rule allows but our local forms do not cover."""
    if signature.name == "stablehlo.convolution":
        return _windows_and_groups(signature, rule)
    if signature.name == "stablehlo.gather":
        return _wide_slices(signature, rule)
    return frozenset()


def _windows_and_groups(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """Windows reach into neighbouring shards. With feature or batch groups only a plain batch stays split: the group
    counts are attributes of the whole.
    """
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    every = frozenset(range(len(rule.sizes)))
    batch = frozenset(rule.operands[0][dims.lhs_batch]) & frozenset(rule.results[0][dims.out_batch])
    if signature.get("batch_group_count", 1) > 1:
        return every
    if signature.get("feature_group_count", 1) > 1:
        return every - batch
    inputs = frozenset(rule.operands[0][dims.lhs_feature])
    outputs = frozenset(rule.results[0][dims.out_feature])
    return every - batch - inputs - outputs


def _wide_slices(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """A masked lookup fetches single rows: indexed operand dimensions with wider slices are not split."""
    numbers = signature.get("dimension_numbers", {})
    sizes = signature.get("slice_sizes", ())
    wide: set[int] = set()
    for dim in numbers.get("start_index_map", ()):
        if sizes[dim] != 1 and sizes[dim] != signature.operands[0].dims[dim]:
            wide |= set(rule.operands[0][dim])
    return frozenset(wide)


_EXACT = ("f32", "f64", "bf16", "f16", "complex<f32>", "complex<f64>")


def linear_operands(signature: Signature) -> tuple[tuple[int, ...], ...]:
    """Sets of operands in which, all others fixed, the op is linear: partial sums may pass through it.

    Integers and booleans are left out, as are conversions: a sum of rounded parts is not the rounded sum.
    """
    facts = facts_of(signature.name)
    if facts.converts or not all(type.dtype in _EXACT for type in signature.results):
        return ()
    return tuple([together or tuple(range(len(signature.operands))) for together in facts.linear])
