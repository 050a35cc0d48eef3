"""Several ops of a graph taken for one, which the last of them becomes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL

__all__ = ["Merging", "read_counts", "with_merged"]

_operands = attrgetter("operands")


class Merging:
    """Takes several ops for one in programs that share blocks, once in each block."""

    def __init__(self, find: Callable[[Graph], Mapping[Op, Op]]) -> None:
        """Nothing is known yet of any block.

        Arguments:
            find: By the ops of a graph that others are to be computed for, these others; it depends on the block alone.
        """
        self._find = find
        self._made: dict[Block, Block] = {}

    def of(self, graph: Graph) -> Graph:
        """A propagated graph with what was found in it; itself where that is nothing.

        The graph given is left as it is. Of one block the same block is made each time.
        """
        block = graph.main.block
        made = self._made.get(block)
        if made is None:
            made = self._made[block] = with_merged(graph, self._find(graph)).main.block
        return graph if made is block else replace(graph, main=replace(graph.main, block=made))


def with_merged(graph: Graph, merged: Mapping[Op, Op]) -> Graph:
    """A copy of a graph with other ops in the places of some, which compute the same.

    Ops outside of manual computations whose results are read no more, as only those replaced have read them, are left
    out. The graph given stays as it is, and is given back where nothing is to be replaced.
    """
    if not merged:
        return graph
    reads = read_counts(graph.main.block)
    reads.subtract(value for op in merged for value in op.operands)
    reads.update(value for op in merged.values() for value in op.operands)
    unread = {value for op in merged for value in op.operands if not reads[value]}
    return replace(graph, main=replace(graph.main, block=_block(graph.main.block, merged, unread)))


def read_counts(block: Block) -> Counter[int]:
    """How often each value is read in a block, and in those of its ops."""
    return Counter(itertools.chain.from_iterable(map(_operands, block.walk())))


def _block(block: Block, merged: Mapping[Op, Op], unread: set[int]) -> Block:
    is_read = unread.isdisjoint
    kept = [merged.get(op, op) for op in block.ops if is_read(op.results)]
    return Block(block.arguments, [_with_regions(op, merged, unread) if op.regions else op for op in kept])


def _with_regions(op: Op, merged: Mapping[Op, Op], unread: set[int]) -> Op:
    if op.name == MANUAL:
        return op
    regions = tuple([_block(region, merged, unread) for region in op.regions])
    return Op(op.signature, op.operands, op.results, regions, op.location)
