"""Ops that compute the same, of the same and with the same sharding: one computes it for all who read it.

Frontends repeat themselves: the gradient of a softmax broadcasts the sums that the softmax has broadcast, each layer
makes its own table of angles, and each weight is scaled by a norm that is worked out for it. XLA's partitioner makes
one of such ops behind all else that it does. Left to what follows it, which puts ops together first, a copy may become
a buffer of its own: a step of four transformer layers held 1.4 times as much for broadcasts that are there twice.

Ops with effects stay, collectives, calls, and ops that hold loops, branches and computations. So do ops behind an
optimization barrier as it gives them other values: what is recomputed to hold less is recomputed still.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import CALLS, DATA_FLOW_OPS, DEVICE_OPS, MANUAL
from shardwright.ir.signature import Signature
from shardwright.propagation.effects import is_pure
from shardwright.sharding import TensorSharding

__all__ = ["AsOne"]

_ALONE = DATA_FLOW_OPS | DEVICE_OPS | CALLS.keys() | {"stablehlo.custom_call", "stablehlo.rng"}
"""Ops that are never one with others: they stand for more than their results, or give others each time."""


class AsOne:
    """Makes one of ops that are alike, in programs that share blocks."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._candidates: dict[Block, list[list[Op]]] = {}
        self._made: dict[tuple[Block, tuple[tuple[int, int], ...]], Block] = {}
        self._ops: dict[tuple[Op, tuple[int, ...]], Op] = {}

    def of(self, graph: Graph) -> Graph:
        """A propagated graph with one op, the first, for those of a block that are alike; itself where none are.

        The graph given is left as it is. Of one block, where the same ops are alike, the same block is made each time.
        """
        main = graph.main
        candidates = self._candidates.get(main.block)
        if candidates is None:
            candidates = self._candidates[main.block] = _candidates(main.block)
        replaced = _replaced(candidates, graph.shardings)
        if not replaced:
            return graph
        key = main.block, tuple(replaced.items())
        block = self._made.get(key)
        if block is None:
            block = self._made[key] = self._block(main.block, replaced)
        return replace(graph, main=replace(main, block=block))

    def _block(self, block: Block, replaced: dict[int, int]) -> Block:
        others, reading = replaced.keys(), self._reading
        kept = [op for op in block.ops if not op.results or op.results[0] not in replaced]
        return Block(
            block.arguments,
            [op if not op.regions and others.isdisjoint(op.operands) else reading(op, replaced) for op in kept],
        )

    def _reading(self, op: Op, replaced: dict[int, int]) -> Op:
        """An op that reads what stands for what it reads."""
        if op.regions:
            regions = tuple([self._block(region, replaced) for region in op.regions])
            operands = tuple([replaced.get(value, value) for value in op.operands])
            return Op(op.signature, operands, op.results, regions, op.location)
        operands = tuple([replaced.get(value, value) for value in op.operands])
        made = self._ops.get((op, operands))
        if made is None:
            made = self._ops[op, operands] = Op(op.signature, operands, op.results, (), op.location)
        return made


def _candidates(block: Block) -> list[list[Op]]:
    """The ops of each block that are alike with others of it if their results lie alike, in order."""
    replaced: dict[int, int] = {}
    others = replaced.keys()
    may_be_one: dict[int, bool] = {}  # by signature, of which few are different
    found: list[list[Op]] = []
    for one in block.blocks(opaque=(MANUAL,)):
        first_of: dict[tuple[Signature, tuple[int, ...]], Op] = {}
        several: set[Op] = set()
        for op in one.ops:
            if op.regions or not op.results:
                continue
            signature = op.signature
            may = may_be_one.get(id(signature))
            if may is None:
                may = may_be_one[id(signature)] = _may_be_one(op)
            if not may:
                continue
            operands = op.operands
            if not others.isdisjoint(operands):
                operands = tuple([replaced.get(value, value) for value in operands])
            first = first_of.setdefault((signature, operands), op)
            if first is not op:
                replaced.update(zip(op.results, first.results, strict=True))
                several.update((first, op))
        if several:
            found.append([op for op in one.ops if op in several])
    return found


def _replaced(candidates: Iterable[Iterable[Op]], shardings: Sequence[TensorSharding | None]) -> dict[int, int]:
    """Result → that of the op that stays."""
    replaced: dict[int, int] = {}
    for ops in candidates:
        seen: dict[object, Op] = {}
        for op in ops:
            operands = tuple([replaced.get(value, value) for value in op.operands])
            first = seen.setdefault((op.signature, operands, tuple([shardings[value] for value in op.results])), op)
            if first is not op:
                replaced.update(zip(op.results, first.results, strict=True))
    return replaced


def _may_be_one(op: Op) -> bool:
    """Whether an op without regions, and any other of its signature, stands for no more than its results."""
    name = op.signature.name
    return name.startswith(("stablehlo.", "chlo.")) and name not in _ALONE and is_pure(op)
