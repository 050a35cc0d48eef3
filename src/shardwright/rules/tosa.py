"""Ops of the `tosa` dialect that have a sharding interface upstream: elementwise ones, and the matrix product.

Elementwise operands have the rank of the result; a dimension of one element is repeated. Those of another rank, as the
shift of a product and the zero points of a negation, are scalars beside them.

Source: MLIR's `tosa` dialect, and its ShardingInterface.
"""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.rules.builder import REDUCTION, RuleBuilder
from shardwright.rules.facts import OpFacts, names
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []

_ELEMENTWISE = names(
    "tosa",
    # one operand
    "abs bitwise_not cast ceil clamp clz cos erf exp floor log logical_not negate reciprocal rsqrt sigmoid sin tanh",
    # two operands
    "add arithmetic_right_shift bitwise_and bitwise_or bitwise_xor equal greater greater_equal intdiv logical_and",
    "logical_left_shift logical_or logical_right_shift logical_xor maximum minimum mul pow sub",
    # three operands
    "select",
)


@sharding_rule(*_ELEMENTWISE, beyond_shardy=True, facts=OpFacts(elementwise=True))
def _elementwise(signature: Signature) -> ShardingRule | None:
    """One factor per dimension of the result, in every operand that is as long there."""
    if len(signature.results) != 1 or not signature.results[0].is_tensor:
        return None
    builder, shape = RuleBuilder(signature), signature.results[0].dims
    for dim, size in enumerate(shape):
        beside = [dim if type.rank == len(shape) and type.dims[dim] == size else None for type in signature.operands]
        builder.factor(size, beside, [dim])
    return builder.build()


@sharding_rule("tosa.matmul", beyond_shardy=True, facts=OpFacts(product=True, sums=True))
def _matmul(signature: Signature) -> ShardingRule | None:
    """A batch of products, with or without the zero points of its operands."""
    if [type.rank for type in (*signature.operands[:2], *signature.results)] != [3, 3, 3]:
        return None
    lhs, rhs, beside = *[type.dims for type in signature.operands[:2]], [None] * (len(signature.operands) - 2)
    return (
        RuleBuilder(signature)
        .factor(lhs[0], [0, 0, *beside], [0])
        .factor(lhs[1], [1, None, *beside], [1])
        .factor(rhs[2], [None, 2, *beside], [2])
        .factor(lhs[2], [2, 1, *beside], [None], REDUCTION)
        .build()
    )
