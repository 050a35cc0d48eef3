"""Copying a graph op by op; what is to become otherwise in the copy overrides what becomes of values, blocks or ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature

__all__ = ["Copier", "cloned", "with_ops_replaced"]


_Renumbering = Callable[[int], int]


def cloned(op: Op, values: dict[int, int], new: _Renumbering, location: _Renumbering | None = None) -> Op:
    """An op like `op`, with all that its regions hold.

    Arguments:
        op: The op.
        values: Value → what is read in its place, where it is another; what `op` makes is added.
        new: Value → a new one that stands for it.
        location: Location → that in the clone, where it is another.
    """
    operands = tuple([values.get(value, value) for value in op.operands])
    results = _renewed(op.results, values, new)
    regions = op.regions and tuple([_cloned_block(region, values, new, location) for region in op.regions])
    return Op(op.signature, operands, results, regions, location(op.location) if location else op.location)


def with_ops_replaced(block: Block, written: Mapping[Op, Sequence[Op]]) -> Block:
    """A block with ops of it, or of regions in it, replaced by others; what stands in manual computations stays.

    Arguments:
        block: It is left as it is.
        written: Op → those that stand in its place.
    """
    ops: list[Op] = []
    for op in block.ops:
        if op in written:
            ops += written[op]
        elif op.regions and op.name != MANUAL:
            regions = tuple([with_ops_replaced(region, written) for region in op.regions])
            ops.append(Op(op.signature, op.operands, op.results, regions, op.location))
        else:
            ops.append(op)
    return Block(block.arguments, ops)


def _cloned_block(block: Block, values: dict[int, int], new: _Renumbering, location: _Renumbering | None) -> Block:
    arguments = _renewed(block.arguments, values, new)
    return Block(arguments, [cloned(op, values, new, location) for op in block.ops])


def _renewed(old: tuple[int, ...], values: dict[int, int], new: _Renumbering) -> tuple[int, ...]:
    for value in old:
        values[value] = new(value)
    return tuple([values[value] for value in old])


class Copier:
    """A copy of a graph, or of some of its blocks, into another.

    Attributes:
        source: The graph that is read.
        target: The graph that is made.
        values: The value of `target` that stands for each value of `source`.
    """

    def __init__(self, source: Graph, target: Graph | None = None) -> None:
        """Copy into `target`, or into an empty graph that is called as `source`."""
        self.source = source
        self.target = source.skeleton() if target is None else target
        self.values: dict[int, int] = {}

    def run(self) -> Graph:
        """The whole graph, entered as the source is."""
        self.target.main = replace(self.target.main)
        self.target.main.block = self.entry(self.source.main.block)
        return self.target

    def entry(self, block: Block) -> Block:
        """The block of the function."""
        return self.block(block)

    def value(self, value: int) -> int:
        """A new value for one of the source."""
        made = self.values[value] = self.target.new_value(self.source.types[value], self.source.shardings[value])
        return made

    def block(self, block: Block) -> Block:
        """A block and all of its ops."""
        made = Block(tuple(map(self.value, block.arguments)), [])
        for op in block.ops:
            self.op(op, made.ops)
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        """One op, as it is."""
        self.copy(op, op.signature, into)

    def copy(self, op: Op, signature: Signature, into: list[Op]) -> None:
        """One op with another signature; its regions are copied."""
        operands = tuple(self.values[value] for value in op.operands)
        regions = tuple(map(self.block, op.regions))
        into.append(Op(signature, operands, tuple(map(self.value, op.results)), regions, op.location))

    def pass_on(self, op: Op) -> None:
        """Nothing for an op whose results are its operands."""
        for result, operand in zip(op.results, op.operands, strict=True):
            self.values[result] = self.values[operand]

    def inline(self, op: Op, into: list[Op]) -> None:
        """What is in the one region of an op, in its place."""
        (body,) = op.regions
        for argument, operand in zip(body.arguments, op.operands, strict=True):
            self.values[argument] = self.values[operand]
        for inner in body.ops[:-1]:
            self.op(inner, into)
        for result, yielded in zip(op.results, body.terminator.operands, strict=True):
            self.values[result] = self.values[yielded]

    def emit(self, into: list[Op], signature: Signature, operands: tuple[int, ...], location: int) -> int:
        """An op of one result that the source does not have; its result."""
        result = self.target.new_value(signature.results[0])
        into.append(Op(signature, operands, (result,), (), location))
        return result
