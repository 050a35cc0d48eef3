"""Matrix products: batch, then lhs, then rhs, then contracting dimensions; the contracting ones are reductions."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.signature import Signature
from shardwright.rules.builder import REDUCTION, RuleBuilder
from shardwright.rules.facts import OpFacts
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []


@sharding_rule(
    "stablehlo.dot_general", facts=OpFacts(product=True, linear=((0,), (1,)), sums=True, index_by_index=True)
)
def _dot_general(signature: Signature) -> ShardingRule:
    numbers = signature.get("dot_dimension_numbers", {})
    return _product(
        signature,
        numbers.get("lhs_batching_dimensions", ()),
        numbers.get("rhs_batching_dimensions", ()),
        numbers.get("lhs_contracting_dimensions", ()),
        numbers.get("rhs_contracting_dimensions", ()),
    )


@sharding_rule("stablehlo.dot", facts=OpFacts(product=True, sums=True, index_by_index=True))
def _dot(signature: Signature) -> ShardingRule:
    """The last dimension of the lhs with the first of the rhs."""
    return _product(signature, (), (), (signature.operands[0].rank - 1,), (0,))


def _product(
    signature: Signature,
    lhs_batch: Sequence[int],
    rhs_batch: Sequence[int],
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
) -> ShardingRule:
    lhs, rhs = (type.dims for type in signature.operands)
    builder = RuleBuilder(signature)
    free: list[tuple[int | None, int | None]] = [
        *zip(lhs_batch, rhs_batch, strict=True),
        *((dim, None) for dim in range(len(lhs)) if dim not in (*lhs_batch, *lhs_contracting)),
        *((None, dim) for dim in range(len(rhs)) if dim not in (*rhs_batch, *rhs_contracting)),
    ]
    for out, (left, right) in enumerate(free):
        builder.factor(signature.results[0].dims[out], [left, right], [out])
    for left, right in zip(lhs_contracting, rhs_contracting, strict=True):
        builder.factor(lhs[left], [left, right], [None], REDUCTION)
    return builder.build()
