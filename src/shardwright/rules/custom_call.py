"""Custom calls that are known by their target. Any other has no rule, unless the program gives it one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from shardwright.ir.signature import Signature
from shardwright.rules.builder import NEED_REPLICATION, PASS_THROUGH, RuleBuilder
from shardwright.rules.facts import Flow, OpFacts, declare
from shardwright.rules.registry import FactorsOf, sharding_rule
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["is_python", "is_python_label", "is_python_with_effects", "is_splittable_call", "known_targets"]

declare(["stablehlo.custom_call @MoveToDevice", "stablehlo.custom_call @MoveToHost"], OpFacts(flow=Flow.PASS_THROUGH))

TargetRule = Callable[[Signature], ShardingRule | None]


@dataclass(frozen=True, slots=True)
class _Target:
    """What is known of the calls of a target.

    Attributes:
        rule: Their rule.
        local: As of `sharding_rule`.
        splittable: Whether their work on a shard is the same call on the shard.
        compares: Whether that is so of a call of a function, too, because it compares two elements.
    """

    rule: TargetRule
    local: FactorsOf | None
    splittable: bool
    compares: bool


_targets: dict[str, _Target] = {}

_MATRIX = 0
_VECTOR = -1
"""Ranks below that of a call's matrices."""


_PYTHON = re.compile(r"stablehlo\.custom_call @\w*python\w*_callback")
"""`xla_ffi_python_cpu_callback`, `xla_python_gpu_callback`, … as `jax.pure_callback` and its relatives are lowered."""


def is_python(signature: Signature) -> bool:
    """Whether an op calls a function of Python, which the process that lowered it has."""
    return is_python_label(signature.label)


def is_python_label(label: str) -> bool:
    """The same of an op as users know it."""
    return bool(_PYTHON.fullmatch(label))


def is_python_with_effects(signature: Signature) -> bool:
    """Whether an op calls a function of Python that does something: `io_callback`, `debug.print`, …"""
    return is_python(signature) and bool(signature.get("has_side_effect", False))


def known_targets() -> tuple[str, ...]:
    """The custom call targets that have a rule."""
    return tuple(_targets)


def is_splittable_call(signature: Signature, calls: bool) -> bool:
    """Whether a custom call can be made on shards; one that `calls` functions if these see single elements only."""
    target = _targets.get(signature.get("call_target_name", ""))
    return target is not None and (target.compares or (target.splittable and not calls))


def _local(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    local = _targets[signature.get("call_target_name")].local
    return rule.pass_through if local is None else local(signature, rule)


@sharding_rule("stablehlo.custom_call", facts=OpFacts(sums=True, typed=True), local=_local)
def _custom_call(signature: Signature) -> ShardingRule | None:
    """No rule either for a call whose operands and results are not those that its target has: nobody checks them."""
    target = _targets.get(signature.get("call_target_name", ""))
    return target.rule(signature) if target else None


def _target(
    *names: str, local: FactorsOf | None = None, splittable: bool = False, compares: bool = False
) -> Callable[[TargetRule], TargetRule]:
    def register(function: TargetRule) -> TargetRule:
        _targets.update(dict.fromkeys(names, _Target(function, local, splittable, compares)))
        return function

    return register


def _in_batch(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return factors_in(rule.results[0][:-2])


def _uncut(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """Of a selection along a dimension that only `backend_config` tells, unless it is the one that becomes smaller."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    return factors_in(rule.results[0]) if source != target else frozenset()


def _is_of(signature: Signature, operands: tuple[int, ...], results: tuple[int, ...]) -> bool:
    """Whether the tensors are matrices, or batches of them, and vectors, of which the first operand tells the rank."""
    rank = signature.operands[0].rank if signature.operands else 0
    extra_ranks = [[type.rank - rank for type in side] for side in (signature.operands, signature.results)]
    return rank >= 2 and extra_ranks == [list(operands), list(results)]


_MOVING = ("MultiPad", "MultiRotate", "MultiSlice", "RotateRight", "Wrap")
"""Calls that shift along the dimension that their `backend_config` tells."""


@_target("InspectSharding", "X64Combine", "X64SplitHigh", "X64SplitLow")
@_target(*(f"_SPMDInternalOp_{name}" for name in _MOVING), local=lambda signature, rule: frozenset())
@_target(
    "Cholesky",
    "CompactWyHelper",
    "InvertDiagBlocksLowerTriangular",
    "InvertDiagBlocksUpperTriangular",
    local=_in_batch,
)
@_target(
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "annotate_device_placement",
    "mhlo.erf",
    "xla.megascale.provide_metadata",
    splittable=True,
)
def _same_shape(signature: Signature) -> ShardingRule | None:
    """One factor per dimension of the first result, in every tensor as far as it has dimensions."""
    if not signature.operands or not signature.results:
        return None
    builder = RuleBuilder(signature)
    for dim, size in enumerate(signature.results[0].dims):
        places = [dim if dim < type.rank else None for type in (*signature.operands, *signature.results)]
        split = len(signature.operands)
        builder.factor(size, places[:split], places[split:])
    return builder.build()


@_target("Eigh", local=_in_batch)
def _eigh(signature: Signature) -> ShardingRule | None:
    """Matrices → eigenvectors, eigenvalues (one per column)."""
    if not _is_of(signature, (_MATRIX,), (_MATRIX, _VECTOR)):
        return None
    shape = signature.operands[0].dims
    rows, columns = len(shape) - 2, len(shape) - 1
    return (
        RuleBuilder(signature)
        .pointwise(shape[:-2])
        .factor(shape[rows], [rows], [rows, None])
        .factor(shape[columns], [columns], [columns, rows])
        .build()
    )


@_target("Qr", "QrDecompositionBlock")
def _qr(signature: Signature) -> ShardingRule | None:
    """Matrices → packed factors, coefficients of the reflectors."""
    if not _is_of(signature, (_MATRIX,), (_MATRIX, _VECTOR)):
        return None
    shape = signature.operands[0].dims
    rows, columns = len(shape) - 2, len(shape) - 1
    return (
        RuleBuilder(signature)
        .pointwise(shape[:-2])
        .factor(shape[rows], [rows], [rows, None], NEED_REPLICATION)
        .factor(shape[columns], [columns], [columns, None], NEED_REPLICATION)
        .factor(signature.results[1].dims[-1], [None], [None, rows], NEED_REPLICATION)
        .build()
    )


@_target("ProductOfElementaryHouseholderReflectors")
def _householder_product(signature: Signature) -> ShardingRule | None:
    """Reflectors, their coefficients → matrices."""
    if not _is_of(signature, (_MATRIX, _VECTOR), (_MATRIX,)):
        return None
    shape = signature.operands[0].dims
    rows, columns = len(shape) - 2, len(shape) - 1
    return (
        RuleBuilder(signature)
        .pointwise(shape[:-2])
        .factor(shape[rows], [rows, None], [rows], NEED_REPLICATION)
        .factor(shape[columns], [columns, None], [columns], NEED_REPLICATION)
        .factor(signature.operands[1].dims[-1], [None, rows], [None], NEED_REPLICATION)
        .build()
    )


def _is_selection(signature: Signature) -> bool:
    """Whether there are values to select from, and all tensors have their rank, scalar operands apart."""
    if not signature.operands or not signature.results:
        return False
    rank = signature.operands[0].rank
    sides = [[type.rank for type in side] for side in (signature.operands, signature.results)]
    return {0, rank} >= {*sides[0]} and {rank} == {*sides[1]}


def _unsorted(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """What is selected along the last dimension comes out in order, also where all of it is."""
    return factors_in(rule.operands[0][:-1])


@_target("mhlo.topk", local=_unsorted, splittable=True)
def _top_k(signature: Signature) -> ShardingRule | None:
    """Where only some elements are kept, the dimension is whole."""
    if not _is_selection(signature):
        return None
    source, target = signature.operands[0].dims, signature.results[0].dims
    builder = RuleBuilder(signature)
    for dim, (size, kept) in enumerate(zip(source, target, strict=True)):
        cut = size != kept
        builder.across(dim, size, NEED_REPLICATION if cut else PASS_THROUGH, blocked=cut)
    return builder.build()


@_target("PartialReduce", local=_uncut)
@_target("ApproxTopK", local=_uncut, splittable=True, compares=True)
def _approx_top_k(signature: Signature) -> ShardingRule | None:
    """Values, their positions, and scalars → kept values and positions. A cut dimension is not connected."""
    if not _is_selection(signature):
        return None
    source, target = signature.operands[0].dims, signature.results[0].dims
    builder = RuleBuilder(signature)
    for dim, (size, kept) in enumerate(zip(source, target, strict=True)):
        if size == kept:
            builder.across(dim, size)
            continue
        nowhere = [None] * len(signature.operands)
        inputs = [dim if type.rank else None for type in signature.operands]
        builder.factor(size, inputs, [None] * len(signature.results))
        builder.factor(kept, nowhere, [dim] * len(signature.results), NEED_REPLICATION, blocked=True)
    return builder.build()
