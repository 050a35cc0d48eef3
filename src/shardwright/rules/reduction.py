"""Ops that combine elements: reduce, reduce_window, select_and_scatter, batch normalization."""

from __future__ import annotations

import math

from shardwright.ir.signature import Signature
from shardwright.rules.builder import (
    NEED_REPLICATION,
    PASS_THROUGH,
    PERMUTATION,
    REDUCTION,
    FactorKind,
    RuleBuilder,
)
from shardwright.rules.facts import OpFacts
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule, factors_in
from shardwright.rules.sliding import pooling

__all__: list[str] = []


@sharding_rule("stablehlo.reduce", facts=OpFacts(sums=True, index_by_index=True))
def _reduce(signature: Signature) -> ShardingRule:
    """Inputs first, then as many initial values, which are scalars."""
    count = len(signature.results)
    reduced = signature.get("dimensions", ())
    nowhere = [None] * count
    builder = RuleBuilder(signature)
    out = 0
    for dim, size in enumerate(signature.operands[0].dims):
        inputs = [*[dim] * count, *nowhere]
        if dim in reduced:
            builder.factor(size, inputs, nowhere, REDUCTION)
        else:
            builder.factor(size, inputs, [out] * count)
            out += 1
    return builder.build()


def _undilated(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """Rules take elements between those of the operand for no matter, but they move these."""
    pairs = zip(rule.operands[0], pooling(signature), strict=True)
    return factors_in(tuple(dim for dim, windows in pairs if windows.base == 1))


def _windows(signature: Signature) -> int:
    """The elements that all windows take together: there is one for each element of the result, or of the source."""
    of = signature.operands[1] if signature.name == "stablehlo.select_and_scatter" else signature.results[0]
    return of.elements * math.prod(windows.size for windows in pooling(signature))


@sharding_rule(
    "stablehlo.reduce_window",
    facts=OpFacts(windowed=True, sums=True, index_by_index=True),
    local=_undilated,
    iterations=_windows,
)
def _reduce_window(signature: Signature) -> ShardingRule:
    """One shard of the result needs its windows: its own part of the input and the edges of its neighbours'."""
    shape = signature.results[0].dims
    windows = pooling(signature)

    def kind(dim: int) -> FactorKind:
        return PASS_THROUGH if windows[dim].is_single else PERMUTATION

    return RuleBuilder(signature).pointwise(shape, kind).build()


@sharding_rule(
    "stablehlo.select_and_scatter", facts=OpFacts(windowed=True, sums=True, index_by_index=True), iterations=_windows
)
def _select_and_scatter(signature: Signature) -> ShardingRule:
    """Operand, source, initial value → result, shaped like the operand."""
    operand, source = signature.operands[0].dims, signature.operands[1].dims
    windows = pooling(signature)
    builder = RuleBuilder(signature)
    for dim, (size, count) in enumerate(zip(operand, source, strict=True)):
        if windows[dim].is_single:
            builder.factor(size, [dim, dim, None], [dim])
        else:
            builder.factor(count, [None, dim, None], [None], NEED_REPLICATION)
            builder.factor(size, [dim, None, None], [dim], PERMUTATION)
    return builder.build()


@sharding_rule("stablehlo.batch_norm_inference", facts=OpFacts(index_by_index=True))
def _batch_norm_inference(signature: Signature) -> ShardingRule:
    """The vectors (scale, offset, mean, variance) go along the feature dimension."""
    feature = signature.get("feature_index")
    builder = RuleBuilder(signature)
    for dim, size in enumerate(signature.operands[0].dims):
        builder.factor(size, [dim, *[0 if dim == feature else None] * 4], [dim])
    return builder.build()


@sharding_rule(
    "stablehlo.batch_norm_training", "stablehlo.batch_norm_grad", beyond_shardy=True, facts=OpFacts(index_by_index=True)
)
def _batch_norm_statistics(signature: Signature) -> ShardingRule:
    """Means over all but the feature dimension: those must be whole."""
    feature = signature.get("feature_index")
    tensors = (*signature.operands, *signature.results)
    split = len(signature.operands)
    builder = RuleBuilder(signature)
    for dim, size in enumerate(signature.operands[0].dims):
        along = dim == feature
        places = [(0 if along else None) if type.rank == 1 else dim for type in tensors]
        builder.factor(size, places[:split], places[split:], PASS_THROUGH if along else NEED_REPLICATION)
    return builder.build()
