"""Sort, Fourier transform and matrix decompositions: batch dimensions are free, the others must be whole."""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.rules.builder import NEED_REPLICATION, PASS_THROUGH, FactorKind, RuleBuilder
from shardwright.rules.facts import OpFacts
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []


@sharding_rule("stablehlo.sort", facts=OpFacts(exact=True, index_by_index=True))
def _sort(signature: Signature) -> ShardingRule:
    """Propagating along the sorted dimension serves only to move its axes to another, if there is one."""
    shape = signature.results[0].dims
    sorted_dim = signature.get("dimension", -1) % max(1, len(shape))
    elsewhere = any(size > 1 for dim, size in enumerate(shape) if dim != sorted_dim)
    builder = RuleBuilder(signature)
    for dim, size in enumerate(shape):
        if dim == sorted_dim:
            builder.across(dim, size, NEED_REPLICATION, blocked=not elsewhere)
        else:
            builder.across(dim, size)
    return builder.build()


@sharding_rule("stablehlo.fft", facts=OpFacts(sums=True, index_by_index=True))
def _fft(signature: Signature) -> ShardingRule:
    """A real transform changes the size of the last dimension, which then also blocks propagation."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    batch = len(source) - len(signature.get("fft_length", ()))
    builder = RuleBuilder(signature)
    for dim, (size, out) in enumerate(zip(source, target, strict=True)):
        builder.across(dim, size, PASS_THROUGH if dim < batch else NEED_REPLICATION, blocked=size != out)
    return builder.build()


@sharding_rule("stablehlo.cholesky", facts=OpFacts(sums=True, index_by_index=True))
def _cholesky(signature: Signature) -> ShardingRule:
    shape = signature.results[0].dims
    batch = len(shape) - 2

    def kind(dim: int) -> FactorKind:
        return PASS_THROUGH if dim < batch else NEED_REPLICATION

    return RuleBuilder(signature).pointwise(shape, kind).build()


@sharding_rule("stablehlo.triangular_solve", facts=OpFacts(sums=True, index_by_index=True))
def _triangular_solve(signature: Signature) -> ShardingRule:
    """`op(a) @ x = b`, or `x @ op(a) = b`: a's rows and columns, and the columns or rows of b that stand apart."""
    a, b = (type.dims for type in signature.operands)
    rows, columns = len(a) - 2, len(a) - 1
    left = bool(signature.get("left_side"))
    transposed = signature.get("transpose_a") in ("TRANSPOSE", "ADJOINT")
    solved, apart = (rows, columns) if left else (columns, rows)
    free, contracting = (rows, columns) if left != transposed else (columns, rows)
    builder = RuleBuilder(signature).pointwise(a[:-2])
    factors: list[tuple[int, list[int | None], list[int | None]]] = [
        (a[free], [free, solved], [None]),
        (b[apart], [None, apart], [apart]),
    ]
    for size, operands, results in factors if left else reversed(factors):
        builder.factor(size, operands, results, NEED_REPLICATION)
    return builder.factor(a[contracting], [contracting, None], [solved], NEED_REPLICATION).build()


@sharding_rule("chlo.top_k", beyond_shardy=True, facts=OpFacts(exact=True, index_by_index=True))
def _top_k(signature: Signature) -> ShardingRule:
    """Values and indices of the largest elements of the last dimension."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    builder = RuleBuilder(signature).pointwise(source[:-1])
    last = len(source) - 1
    return builder.across(last, source[last], NEED_REPLICATION, blocked=source != target).build()
