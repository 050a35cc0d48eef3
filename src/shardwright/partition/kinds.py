"""Kinds of partial values beside what their ops compute: contributions to a sum are none to a maximum."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.splits import splits_of
from shardwright.sharding import TensorSharding

__all__ = ["check_kinds", "made_kind"]

_COMBINING = {"sdy.all_reduce", "sdy.reduce_scatter", "sdy.replicated_to_unreduced", "sdy.sharded_to_unreduced"}
_SAME = LAYOUTS - _COMBINING | {"stablehlo.optimization_barrier"}
"""Ops whose results are their operands, in order, partial as these are."""


def check_kinds(graph: Graph) -> None:
    """Refuse values that are declared partial by another kind than the op that makes them combines by.

    Raises:
        ShardingError: at the line of the op that makes the first such value.
    """
    if not any(sharding.partial for sharding in graph.different_shardings):
        return
    makers, same = _origins(graph)
    for value, sharding in enumerate(graph.shardings):
        if sharding is not None and sharding.partial:
            _check(graph, value, sharding, makers, same)
    main = graph.main
    for value, sharding in zip(main.block.terminator.operands, main.result_shardings, strict=True):
        if sharding is not None and sharding.partial:
            _check(graph, value, sharding, makers, same)


@memoize
def made_kind(signature: Signature) -> str | None:
    """The kind by which an op's own contributions combine: `sum` of a product, that of its body of a reduction."""
    splits = splits_of(signature)
    if splits is None or not splits.rule.reduction:
        return None
    return signature.bodies[0].reduction if signature.bodies else splits.kind


def _origins(graph: Graph) -> tuple[dict[int, Op], dict[int, tuple[int, ...]]]:
    """The op that makes each value, and for values that are others' the values that they are."""
    makers: dict[int, Op] = {}
    same: dict[int, tuple[int, ...]] = {}
    for op in graph.walk():
        if op.name == "sdy.manual_computation":
            continue  # its body alone tells
        makers.update(dict.fromkeys(op.results, op))
        if op.name in _SAME:
            same.update(zip(op.results, ((value,) for value in op.operands), strict=True))
            continue
        yields = [block.terminator.operands for block in op.regions]
        if op.name == "stablehlo.while":
            yields = [op.operands, yields[1]]
        for number, result in enumerate(op.results if yields else ()):
            same[result] = tuple(values[number] for values in yields)
    return makers, same


def _check(
    graph: Graph, value: int, sharding: TensorSharding, makers: dict[int, Op], same: dict[int, tuple[int, ...]]
) -> None:
    """Look at every op that makes the value."""
    seen = {value}
    left = [value]
    while left:
        one = left.pop()
        fresh = [other for other in same.get(one, ()) if other not in seen]
        seen.update(fresh)
        left += fresh
        op = makers.get(one)
        if op is not None and one not in same:
            _check_op(graph, op, sharding)


def _check_op(graph: Graph, op: Op, sharding: TensorSharding) -> None:
    """The kind must be that by which the op combines, or that of partial operands along the same axes."""
    made = made_kind(op.signature)
    operands = [graph.shardings[value] for value in op.operands]
    held = [p for operand in operands if operand is not None for p in operand.partial]
    for partial in sharding.partial:
        passed = next((p.kind for p in held if p.axis.overlaps(partial.axis)), None)
        kind = made or passed or partial.kind
        if partial.kind != kind:
            raise ShardingError(
                f"a result of {op.name} is declared partial by {partial.kind}, and its contributions combine by {kind}",
                op=op.signature.label,
                location=str(graph.locations[op.location]),
                cause=f"it is declared as {sharding!r}, by itself or where its value is used as it is",
                remedy=f"declare it partial by {kind}, or reduced",
            )
