"""Which ops can be computed on padded dimensions, and which of their operands they would see the padding of.

Padding stands at the end of a dimension, and what stands in it is left open. An op can be computed on a padded
dimension along a factor that it goes through index by index: what it makes of padding is padding of its result. Where
it combines what stands along a factor, padding must hold what changes nothing: `seen_padding` says where, and what.

No op is taken for one that can be padded because nothing speaks against it: those that can be declare it beside their
rules (`OpFacts.index_by_index`), or are named here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array, i64_tensor, integer
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.convolution import few_windows
from shardwright.partition.localize.local import identity_value
from shardwright.partition.localize.rounds import picks
from shardwright.partition.localize.rows import dims_in_part
from shardwright.partition.splits import splits_of
from shardwright.rules.convolution import convolution_dims, convolution_windows
from shardwright.rules.facts import names
from shardwright.rules.given import batch_factors, is_opaque
from shardwright.rules.registry import is_given, local_factors
from shardwright.rules.rule import DimFactors, ShardingRule, TensorMapping, factors_in, identity_rule
from shardwright.rules.text import ATTRIBUTE, format_rule
from shardwright.rules.traits import facts_of, is_elementwise

__all__ = ["Seen", "index_limits", "minor_size", "paddable", "resized", "seen_padding"]

_SIZES = {
    "stablehlo.dynamic_slice": "slice_sizes",
    "stablehlo.gather": "slice_sizes",
    "stablehlo.slice": "limit_indices",
}
"""The attribute that has, for each dimension of the first operand, how much is taken of it."""

_FIRST_START = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2}
"""The first operand that says where rows are taken, or put: one for each dimension follows."""

_FEATURE_GROUPS = "feature_group_count"
_PRODUCTS = names("stablehlo", "dot dot_general")
_TAKING = names("stablehlo", "dynamic_slice gather")
_LOOKUPS = names("stablehlo", "gather scatter")


@dataclass(frozen=True, slots=True)
class Seen:
    """Padding of an operand that an op would see.

    Attributes:
        operand: Number of the operand.
        dims: Its dimensions along which the padding stands.
        kind: The reduction kind whose identity the padding must hold; `None` for an initial value of the op.
        initial: Number of the operand that is this initial value.
    """

    operand: int
    dims: tuple[int, ...]
    kind: str | None
    initial: int | None = None


@memoize
def paddable(signature: Signature) -> tuple[ShardingRule, frozenset[int]] | None:
    """An op's rule, and the factors along which it can be computed on padded dimensions; `None` where there are none.

    A factor of which a dimension has others beside it is none of them: its indices are no end of that dimension. But of
    what a reshape merges or splits the major one is: what is behind its end is behind that of the dimension.
    """
    if signature.name in LAYOUTS:
        rule = identity_rule(signature.results[0].dims)
        return rule, frozenset(range(len(rule.sizes)))
    splits = splits_of(signature)
    if splits is None:
        return None
    rule = splits.rule
    if is_given(signature):
        known = batch_factors(signature, rule) if is_opaque(signature) else frozenset()
    else:
        known = _through(signature, rule) | _combined(signature, rule)
    factors = splits.allowed & known
    most = None if signature.name == "stablehlo.reshape" else 1
    ending = frozenset([factor for factor in factors if _ends(rule, factor, most)])
    return (rule, ending) if ending else None


def _through(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors that an op goes through index by index, each shard by itself."""
    if signature.name == "stablehlo.scatter":  # beyond the end of a dimension updates are dropped, padded or not
        return rule.pass_through - factors_in(tuple([rule.operands[0][dim] for dim in dims_in_part(signature)]))
    if signature.name == "stablehlo.convolution":
        return _apart(signature, rule)
    if signature.name == "stablehlo.dynamic_update_slice":
        return factors_in(rule.operands[0]) & rule.pass_through
    if facts_of(signature.name).index_by_index or (is_elementwise(signature) and not signature.bodies):
        return local_factors(signature)
    return frozenset()


def _combined(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors along which an op combines elements, where something is known that changes nothing."""
    if signature.name in (*_PRODUCTS, *_TAKING):
        return rule.reduction
    if signature.name == "stablehlo.convolution":
        dims = convolution_dims(signature.text("dimension_numbers") or "")
        return frozenset(rule.operands[1][dims.rhs_input]) if max(_groups(signature)) == 1 else frozenset()
    if signature.name not in ("stablehlo.reduce", "stablehlo.scatter"):
        return frozenset()
    kind = signature.bodies[0].reduction
    if kind is None:
        return rule.reduction if signature.name == "stablehlo.reduce" and picks(signature) else frozenset()
    with suppress(ShardingError):
        identity_value(kind, signature.operands[0].dtype)
        return rule.reduction
    return frozenset()


def _groups(signature: Signature) -> tuple[int, int]:
    """How many groups of features a convolution has, and how many of the batch."""
    return signature.get(_FEATURE_GROUPS, 1), signature.get("batch_group_count", 1)


def _apart(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The batch of a convolution, its output features, and windows that are fewer than elements of a kernel.

    Of features in groups only such as have a kernel of one input feature each stand alone: what is put behind them no
    other reads.
    """
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    if _groups(signature)[1] > 1:
        return frozenset()
    features = factors_in((rule.operands[0][dims.lhs_batch], rule.operands[1][dims.rhs_output]))
    return features | few_windows(signature, rule)


def _ends(rule: ShardingRule, factor: int, most: int | None) -> bool:
    """Whether a factor is the major one of all its dimensions, which have `most` factors at most."""
    dims = [dim for mapping in (*rule.operands, *rule.results) for dim in mapping if factor in dim]
    return all(dim[:most] == dim and dim[0] == factor for dim in dims)


def minor_size(rule: ShardingRule, dim: DimFactors) -> int:
    """How many indices of a dimension there are for each of its major factor."""
    return math.prod([rule.sizes[factor] for factor in dim[1:]])


def resized(signature: Signature, sizes: Mapping[int, int]) -> Signature:
    """The same op with factors that are padded, to the sizes given."""
    return _resized(signature, tuple(sorted(sizes.items()))) if sizes else signature


@memoize
def _resized(signature: Signature, sizes: tuple[tuple[int, int], ...]) -> Signature:
    known = paddable(signature)
    assert known is not None
    rule, new = known[0], dict(sizes)
    operands = _types(signature.operands, rule, rule.operands, new)
    made = signature.replace(operands=operands, results=_types(signature.results, rule, rule.results, new))
    text: dict[str, str | None] = {}
    if signature.text(ATTRIBUTE) is not None:
        wider = tuple([new.get(factor, size) for factor, size in enumerate(rule.sizes)])
        text[ATTRIBUTE] = format_rule(replace(rule, sizes=wider))
    if signature.name in _SIZES:
        text[_SIZES[signature.name]] = i64_array(_taken(signature, made))
    if signature.name in _LOOKUPS:  # the indices that padding holds are in no order, and name no place of their own
        stated = {name: signature.text(name) for name in ("indices_are_sorted", "unique_indices")}
        text |= {name: "false" for name, value in stated.items() if value is not None}
    if signature.name == "stablehlo.convolution":
        text |= _convolved(signature, made)
    return made.replace(operands=None, results=None, **text) if text else made


def _convolved(signature: Signature, made: Signature) -> dict[str, str | None]:
    """The attributes of a convolution that hold how many groups of features it has, and how far windows go."""
    text: dict[str, str | None] = {}
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    if _groups(signature)[0] > 1:
        each = signature.operands[0].dims[dims.lhs_feature] // _groups(signature)[0]
        text[_FEATURE_GROUPS] = integer(made.operands[0].dims[dims.lhs_feature] // each)
    more = [made.results[0].dims[out] - signature.results[0].dims[out] for _, _, out in dims.spatial]
    if any(more):
        pairs = zip(convolution_windows(signature), more, strict=True)
        text["padding"] = i64_tensor([(one.low, one.high + count * one.stride) for one, count in pairs])
    return text


def _taken(signature: Signature, made: Signature) -> list[int]:
    """How much is taken of each dimension of the first operand: all of those that are padded, or one element."""
    sizes = zip(signature.operands[0].dims, made.operands[0].dims, strict=True)
    parts = signature.get(_SIZES[signature.name])
    return [padded if part == size else part for part, (size, padded) in zip(parts, sizes, strict=True)]


def _types(
    types: tuple[TensorType, ...], rule: ShardingRule, mappings: tuple[TensorMapping, ...], sizes: Mapping[int, int]
) -> tuple[TensorType, ...]:
    return tuple(
        [
            type.with_shape(_shape(type.dims, rule, of, sizes)) if of else type
            for type, of in zip(types, mappings, strict=True)
        ]
    )


def _shape(
    dims: tuple[int, ...], rule: ShardingRule, mapping: TensorMapping, sizes: Mapping[int, int]
) -> tuple[int, ...]:
    pairs = zip(dims, mapping, strict=True)
    return tuple([sizes[of[0]] * minor_size(rule, of) if of and of[0] in sizes else size for size, of in pairs])


@memoize
def seen_padding(signature: Signature, factors: frozenset[int]) -> tuple[Seen, ...]:
    """The padding that an op would see where `factors` of it are padded."""
    known = paddable(signature)
    if known is None or not factors & known[0].reduction or signature.name in _TAKING:
        return ()
    rule, combined, count = known[0], factors & known[0].reduction, len(signature.results)
    kind = signature.bodies[0].reduction if signature.bodies else "sum"
    numbers = range(len(signature.operands) - count * (signature.name == "stablehlo.reduce"))
    if signature.name == "stablehlo.scatter":  # its updates
        numbers = range(count + 1, len(signature.operands))
    seen: list[Seen] = []
    for number in numbers:
        dims = tuple([dim for dim, of in enumerate(rule.operands[number]) if combined.intersection(of)])
        seen.append(Seen(number, dims, kind, None if kind else count + number))
    return tuple(seen)


@memoize
def index_limits(signature: Signature, factors: frozenset[int]) -> tuple[tuple[int, int, tuple[int | None, ...]], ...]:
    """The operands that hold indices which an op clamps to what it takes of, or puts into, a tensor padded along some
    of `factors`: the operand, its dimension that holds components of an index, and for each component the last place in
    the tensor as it was; `None` for one that is clamped as it should be.
    """
    known = paddable(signature)
    if known is None:
        return ()
    whole = signature.operands[0].dims
    if signature.name == "stablehlo.gather":
        combined = factors & known[0].reduction
        numbers = signature.get("dimension_numbers", {})
        dims, vector = numbers.get("start_index_map", ()), numbers.get("index_vector_dim", 0)
        taken = signature.get(_SIZES[signature.name], ())
        limits = [whole[dim] - taken[dim] if combined.intersection(known[0].operands[0][dim]) else None for dim in dims]
        return ((1, vector, tuple(limits)),) if any(limit is not None for limit in limits) else ()
    first = _FIRST_START.get(signature.name)
    if first is None:
        return ()
    parts = signature.results[0].dims if first == 1 else signature.operands[1].dims
    padded = [bool(factors.intersection(of)) for of in known[0].operands[0]]
    cut = [dim for dim, part in enumerate(parts) if padded[dim] and part != whole[dim]]
    return tuple((first + dim, 0, (whole[dim] - parts[dim],)) for dim in cut)
