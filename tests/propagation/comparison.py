"""Our propagated graph against the C++ Shardy's output, op by op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.types import TensorType
from shardwright.notation.modules import read
from shardwright.propagation.steps.boundary import divisible
from shardwright.sharding import TensorSharding

__all__ = ["UP_TO_RESHARDS", "differences", "differences_of"]

UP_TO_RESHARDS = (
    "builtin.module(symbol-dce,sdy-lift-inlined-meshes,sdy-remove-size-one-axes,sdy-propagate-sharding-from-func-to-call,"
    "sdy-constant-or-scalar-splitter,symbol-dce,sdy-manual-axes-cleanup,sdy-add-data-flow-edges,sdy-flatten-call-graph,"
    "symbol-dce,sdy-import-func-calls{add-data-flow-edges-on-named-computations=true},symbol-dce,"
    "sdy-apply-sharding-constraints,sdy-sharding-group-import,sdy-pre-order-funcs,sdy-user-priority-propagate,"
    "sdy-export-named-computations,sdy-propagate-to-func-results,sdy-unflatten-call-graph{dedup-functions-fully=false},"
    "symbol-dce,sdy-insert-func-call-reshards,func.func(sdy-constant-or-scalar-merger),"
    "func.func(sdy-sink-data-flow-edges),sdy-remove-sharding-groups,func.func(sdy-sharding-constraint-to-reshard),"
    "sdy-update-non-divisible-input-output-shardings,sdy-remove-sub-axes-in-input-output-shardings,sdy-close-shardings,"
    "canonicalize{enable-patterns={sdy-collective} max-iterations=10 region-simplify=aggressive},"
    "func.func(sdy-drop-sharding-rules))"
)
"""`sdy-propagation-pipeline` as jaxlib 0.10.2 expands it, without inserting reshards and saving modules."""


def differences(ours: Graph, theirs: str) -> list[str]:
    """What differs between a propagated graph and the text of the C++ output."""
    return differences_of(ours, read(load_module(theirs)))


def differences_of(ours: Graph, graph: Graph) -> list[str]:
    """What differs between a propagated graph and the one that the C++ put out."""
    unlike: list[str] = []
    _compare_blocks(ours, ours.main.block, graph, graph.main.block, unlike)
    for number, (one, other) in enumerate(zip(ours.main.result_shardings, graph.main.result_shardings, strict=True)):
        if not _equal(one, other):
            unlike.append(f"result {number}: {one}, C++ {other}")
    return unlike


def _compare_blocks(ours: Graph, one: Block, theirs: Graph, other: Block, unlike: list[str]) -> None:
    if one is ours.main.block:
        for number, (left, right) in enumerate(zip(one.arguments, other.arguments, strict=True)):
            if not _equal(ours.shardings[left], theirs.shardings[right]):
                unlike.append(f"argument {number}: {ours.shardings[left]}, C++ {theirs.shardings[right]}")
    ops, others = one.ops, other.ops
    if [_name(op) for op in ops] != [_name(op) for op in others]:
        ops, others = list(_opened(ops)), list(_opened(others))
    names = [_name(op) for op in ops]
    if names != [_name(op) for op in others]:
        unlike.append(f"ops: {names}, C++ {[_name(op) for op in others]}")
        return
    for left_op, right_op in zip(ops, others, strict=True):
        for left, right in zip(left_op.results, right_op.results, strict=True):
            exported = _exported(right_op, theirs.shardings[right], theirs.types[right])
            if not _equal(ours.shardings[left], exported):
                unlike.append(f"{left_op}: {ours.shardings[left]}, C++ {exported}")
        stated, its_stated = left_op.signature.boundary, right_op.signature.boundary
        for mine, given, values in (
            (stated.in_shardings, its_stated.in_shardings, right_op.operands),
            (stated.out_shardings, its_stated.out_shardings, right_op.results),
        ):
            types = [theirs.types[value] for value in values]
            its = [_exported(right_op, one, type) for one, type in zip(given or (), types, strict=False)]
            if not all(_equal(one, other) for one, other in zip_longest(mine or (), its)):
                unlike.append(f"{left_op}: {mine} at its boundary, C++ {its}")
        for left_block, right_block in zip(left_op.regions, right_op.regions, strict=True):
            _compare_blocks(ours, left_block, theirs, right_block, unlike)


def _exported(op: Op, sharding: TensorSharding | None, type: TensorType) -> TensorSharding | None:
    """At a named computation, what the function made of it says: arguments and results are split evenly."""
    if op.name != "sdy.named_computation" or sharding is None:
        return sharding
    return divisible(sharding, type.dims)


def _opened(ops: Iterable[Op]) -> Iterator[Op]:
    """The ops with those in named computations in their place: a call about which nothing is said is read as its ops."""
    for op in ops:
        if op.name == "sdy.named_computation":
            yield from _opened(op.regions[0].ops[:-1])
        else:
            yield op


def _name(op: Op) -> str:
    return op.name.replace("sdy.constant", "stablehlo.constant")


def _equal(one: TensorSharding | None, other: TensorSharding | None) -> bool:
    if other is None or other.is_replicated:
        return one is None or one.is_replicated
    return one is not None and one.equivalent(other)
