"""Convolution: batch and features as in a matrix product, spatial dimensions along windows or within them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from shardwright.ir.signature import Signature
from shardwright.rules.builder import PERMUTATION, REDUCTION, RuleBuilder
from shardwright.rules.facts import OpFacts
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule
from shardwright.rules.sliding import Sliding, sliding

__all__ = ["ConvolutionDims", "convolution_dims", "convolution_windows", "dimension_letters"]

_DIMS = re.compile(r"\[([^\]]*)\]\s*x\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class ConvolutionDims:
    """Which dimension is what: `spatial` holds those of lhs, rhs and result for each spatial dimension."""

    lhs_batch: int
    lhs_feature: int
    rhs_input: int
    rhs_output: int
    out_batch: int
    out_feature: int
    spatial: tuple[tuple[int, int, int], ...]


def convolution_dims(text: str) -> ConvolutionDims:
    """From `#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`."""
    lhs, rhs, out = dimension_letters(text)
    spatial = tuple((lhs.index(name), rhs.index(name), out.index(name)) for name in map(str, range(len(lhs) - 2)))
    places = (lhs.index("b"), lhs.index("f"), rhs.index("i"), rhs.index("o"), out.index("b"), out.index("f"))
    return ConvolutionDims(*places, spatial)


def dimension_letters(text: str) -> tuple[list[str], list[str], list[str]]:
    """`#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>` as its three lists."""
    match = _DIMS.search(text)
    groups = match.groups() if match else ("b, f", "i, o", "b, f")
    lhs, rhs, out = ([name.strip() for name in group.split(",")] for group in groups)
    return lhs, rhs, out


def convolution_windows(signature: Signature) -> tuple[Sliding, ...]:
    """How the windows of a convolution slide along each spatial dimension."""
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    kernel = signature.operands[1].dims
    return sliding(signature, [kernel[dim] for _, dim, _ in dims.spatial], "lhs_dilation", "rhs_dilation")


def _along_windows(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    lhs, rhs = rule.operands
    (out,) = rule.results
    spatial = convolution_dims(signature.text("dimension_numbers") or "").spatial
    return frozenset(factor for i, j, k in spatial for factor in (*lhs[i], *rhs[j], *out[k]))


def _products(signature: Signature) -> int:
    """The products of elements: of one feature of the result, each of its elements has those of all of a kernel."""
    kernel, out = signature.operands[1], signature.results[0]
    features = kernel.dims[convolution_dims(signature.text("dimension_numbers") or "").rhs_output]
    return out.elements * (kernel.elements // max(1, features))


@sharding_rule("stablehlo.convolution", facts=OpFacts(sums=True), apart=_along_windows, iterations=_products)
def _convolution(signature: Signature) -> ShardingRule:
    dims = convolution_dims(signature.text("dimension_numbers") or "")
    rhs, out = signature.operands[1].dims, signature.results[0].dims
    batch_groups = signature.get("batch_group_count", 1)
    feature_groups = signature.get("feature_group_count", 1)
    builder = RuleBuilder(signature)
    if batch_groups > 1:
        builder.factor(batch_groups, [dims.lhs_batch, dims.rhs_output], [dims.out_feature])
    size = out[dims.out_batch]
    builder.factor(size, [_below(dims.lhs_batch, batch_groups, size), None], [dims.out_batch])
    for size, lhs_dim, rhs_dim, out_dim in _spatial_factors(signature, dims):
        kind = PERMUTATION if rhs_dim is None else REDUCTION
        builder.factor(size, [lhs_dim, rhs_dim], [out_dim], kind)
    if feature_groups > 1:
        builder.factor(feature_groups, [dims.lhs_feature, dims.rhs_output], [dims.out_feature])
    size = rhs[dims.rhs_input]
    builder.factor(size, [_below(dims.lhs_feature, feature_groups, size), dims.rhs_input], [None], REDUCTION)
    per_group = out[dims.out_feature] // (batch_groups * feature_groups)
    if per_group > 1:
        builder.factor(per_group, [None, dims.rhs_output], [dims.out_feature])
    return builder.build()


def _below(dim: int, groups: int, size: int) -> int | None:
    """Where the factor minor to the groups stands: nowhere, if there are groups and it is a single element."""
    return None if groups > 1 and size == 1 else dim


def _spatial_factors(signature: Signature, dims: ConvolutionDims) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Size and dimension in lhs, rhs, result of each spatial factor.

    A spatial dimension of the lhs can be split along the windows, of which the result has one element each, or
    within the window, of whose elements the rhs has one each. The larger of both is the major factor.
    """
    lhs, rhs = (type.dims for type in signature.operands)
    for lhs_dim, rhs_dim, out_dim in dims.spatial:
        windows, window = signature.results[0].dims[out_dim], rhs[rhs_dim]
        along: tuple[int, int | None, int | None] = (windows, None, out_dim)
        within: tuple[int, int | None, int | None] = (window, rhs_dim, None)
        left = lhs[lhs_dim]
        for most, in_rhs, in_out in (along, within) if windows >= window else (within, along):
            size = min(left, most)
            if size > 1:
                yield size, lhs_dim, in_rhs, in_out
                left //= size
