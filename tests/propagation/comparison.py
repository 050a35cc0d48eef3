"""Our propagated graph against the C++ Shardy's output, op by op."""

from __future__ import annotations

from shardwright.ir.context import load_module
from shardwright.ir.graph import Block, Graph, Op
from shardwright.notation.modules import read
from shardwright.sharding import TensorSharding

__all__ = ["UP_TO_RESHARDS", "differences"]

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
    graph = read(load_module(theirs))
    found: list[str] = []
    _compare_blocks(ours, ours.main.block, graph, graph.main.block, found)
    for number, (one, other) in enumerate(zip(ours.main.result_shardings, graph.main.result_shardings, strict=True)):
        if not _equal(one, other):
            found.append(f"result {number}: {one}, C++ {other}")
    return found


def _compare_blocks(ours: Graph, one: Block, theirs: Graph, other: Block, found: list[str]) -> None:
    if one is ours.main.block:
        for number, (left, right) in enumerate(zip(one.arguments, other.arguments, strict=True)):
            if not _equal(ours.shardings[left], theirs.shardings[right]):
                found.append(f"argument {number}: {ours.shardings[left]}, C++ {theirs.shardings[right]}")
    names = [_name(op) for op in one.ops]
    if names != [_name(op) for op in other.ops]:
        found.append(f"ops: {names}, C++ {[_name(op) for op in other.ops]}")
        return
    for left_op, right_op in zip(one.ops, other.ops, strict=True):
        for left, right in zip(left_op.results, right_op.results, strict=True):
            if not _equal(ours.shardings[left], theirs.shardings[right]):
                found.append(f"{left_op}: {ours.shardings[left]}, C++ {theirs.shardings[right]}")
        for attribute in ("in_shardings", "out_shardings"):
            if left_op.signature.text(attribute) != right_op.signature.text(attribute):
                said = left_op.signature.text(attribute), right_op.signature.text(attribute)
                found.append(f"{left_op}: {attribute} {said[0]}, C++ {said[1]}")
        for left_block, right_block in zip(left_op.regions, right_op.regions, strict=True):
            _compare_blocks(ours, left_block, theirs, right_block, found)


def _name(op: Op) -> str:
    return op.name.replace("sdy.constant", "stablehlo.constant")


def _equal(one: TensorSharding | None, other: TensorSharding | None) -> bool:
    if other is None or other.is_replicated:
        return one is None or one.is_replicated
    return one is not None and one.equivalent(other)
