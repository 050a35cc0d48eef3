"""Ops that compute each element of the result from the same element of the operands: one factor per dimension.

A scalar operand (of `clamp` and `select`) stands beside the others without a factor.
"""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.rules.facts import ALL, OpFacts, declare, names
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__ = ["POINTWISE", "pointwise_rule"]

_STABLEHLO = names(
    "stablehlo",
    # one operand
    "abs cbrt ceil convert cosine count_leading_zeros exponential exponential_minus_one floor imag is_finite log",
    "log_plus_one logistic negate not popcnt real reduce_precision round_nearest_afz round_nearest_even rsqrt sign",
    "sine sqrt tan tanh",
    # two operands
    "add and atan2 compare complex divide maximum minimum multiply or power remainder shift_left",
    "shift_right_arithmetic shift_right_logical subtract xor",
    # three operands
    "clamp select",
)

_CHLO = names(
    "chlo",
    "_asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e conj constant_like cosh digamma erf erf_inv",
    "erfc is_inf is_neg_inf is_pos_inf lgamma sinh square tan",
)

_CHLO_WITHOUT_TRAIT = names("chlo", "mulhi next_after polygamma zeta")
"""Ops that work element by element as well, but do not carry the trait."""

POINTWISE = frozenset((*_STABLEHLO, *_CHLO, *_CHLO_WITHOUT_TRAIT))
"""Ops that have the rule of this file whatever their types and attributes, but for a rule that is given for one."""

_ELEMENTWISE = OpFacts(elementwise=True)

declare(names("stablehlo", "divide imag negate real"), OpFacts(linear=((0,),)))
declare(["stablehlo.convert"], OpFacts(linear=((0,),), converts=True))
declare(["stablehlo.reduce_precision"], OpFacts(converts=True, exact=True, typed=True))
declare(
    names(
        "stablehlo",
        "abs ceil clamp floor imag maximum minimum negate real round_nearest_afz round_nearest_even select sign",
    ),
    OpFacts(exact=True),
)
declare(names("chlo", "conj constant_like"), OpFacts(exact=True))
declare((*names("stablehlo", "log power rsqrt sqrt"), "chlo.lgamma"), OpFacts(of_nonnegative=True))
declare((*names("stablehlo", "abs exponential logistic sqrt"), "chlo.square"), OpFacts(nonnegative=True))
declare(names("stablehlo", "add maximum minimum"), OpFacts(joins=True))
declare(names("stablehlo", "add complex subtract"), OpFacts(linear=(ALL,)))
declare(["stablehlo.multiply"], OpFacts(linear=((0,), (1,))))
declare(["stablehlo.select"], OpFacts(linear=((1, 2),)))


@sharding_rule("sdy.sharding_constraint")
@sharding_rule(*_STABLEHLO, facts=_ELEMENTWISE)
def pointwise_rule(signature: Signature) -> ShardingRule:
    """One factor per dimension of the result, in every tensor that is not a scalar."""
    tensors = (*signature.operands, *signature.results)
    return _pointwise(signature.results[0].dims, len(signature.operands), tuple([type.rank > 0 for type in tensors]))


@memoize
def _pointwise(shape: tuple[int, ...], operands: int, has_dims: tuple[bool, ...]) -> ShardingRule:
    mapping = tuple([(dim,) for dim in range(len(shape))])
    mappings = tuple([mapping if has else () for has in has_dims])
    return ShardingRule(shape, mappings[:operands], mappings[operands:])


@sharding_rule("stablehlo.map", beyond_shardy=True)
@sharding_rule(*_CHLO_WITHOUT_TRAIT, beyond_shardy=True, facts=OpFacts(in_place=True))
@sharding_rule(*_CHLO, beyond_shardy=True, facts=_ELEMENTWISE)
def _pointwise_beyond(signature: Signature) -> ShardingRule:
    return pointwise_rule(signature)


@sharding_rule(
    "stablehlo.uniform_quantize",
    "stablehlo.uniform_dequantize",
    beyond_shardy=True,
    facts=_ELEMENTWISE | OpFacts(typed=True),
)
def _per_tensor_quantization(signature: Signature) -> ShardingRule | None:
    """Pointwise where one scale serves the whole tensor; scales per axis would have to be split along."""
    per_axis = any("{" in type.dtype for type in (*signature.operands, *signature.results))
    plain = all(type.is_tensor for type in (*signature.operands, *signature.results))
    return pointwise_rule(signature) if plain and not per_axis else None
