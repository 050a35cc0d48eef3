"""Several ops of a graph taken for one, which the last of them becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL

__all__ = ["with_merged"]


def with_merged(graph: Graph, merged: Mapping[Op, Op]) -> Graph:
    """A copy of a graph with other ops in the places of some, which compute the same.

    Ops outside of manual computations whose results are read no more, as only those replaced have read them, are left
    out. The graph given stays as it is, and is given back where nothing is to be replaced.
    """
    if not merged:
        return graph
    reads = Counter(value for op in graph.walk() for value in op.operands)
    reads.subtract(value for op in merged for value in op.operands)
    reads.update(value for op in merged.values() for value in op.operands)
    unread = {value for op in merged for value in op.operands if not reads[value]}
    return replace(graph, main=replace(graph.main, block=_block(graph.main.block, merged, unread)))


def _block(block: Block, merged: Mapping[Op, Op], unread: set[int]) -> Block:
    kept = [merged.get(op, op) for op in block.ops if not unread.intersection(op.results)]
    return Block(block.arguments, [_with_regions(op, merged, unread) for op in kept])


def _with_regions(op: Op, merged: Mapping[Op, Op], unread: set[int]) -> Op:
    if not op.regions or op.name == MANUAL:
        return op
    regions = tuple([_block(region, merged, unread) for region in op.regions])
    return Op(op.signature, op.operands, op.results, regions, op.location)
