"""Rebuilding a graph op by op, for the variants of a program that its results are judged by."""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType

__all__ = ["Rebuilder", "without_donation"]

_DONATION = frozenset({"jax.buffer_donor", "tf.aliasing_output"})


class Rebuilder:
    """A copy of a graph, made op by op; a variant overrides what becomes of types, arguments and ops.

    Attributes:
        source: The graph that is read.
        target: The graph that is made.
        values: The value of `target` that stands for each value of `source`.
    """

    def __init__(self, source: Graph) -> None:
        """Start with an empty copy."""
        self.source = source
        self.target = source.skeleton()
        self.target.main = replace(self.target.main)
        self.values: dict[int, int] = {}

    def run(self) -> Graph:
        """The copy."""
        self.target.main.block = self.entry(self.source.main.block)
        return without_donation(self.target)

    def entry(self, block: Block) -> Block:
        """The block of the function."""
        return self.block(block)

    def type(self, type: TensorType) -> TensorType:
        """The type that values of `type` get."""
        return type

    def value(self, value: int) -> int:
        """A new value for one of the source."""
        type = self.type(self.source.types[value])
        made = self.values[value] = self.target.new_value(type, self.source.shardings[value])
        return made

    def block(self, block: Block) -> Block:
        """A block and all of its ops."""
        made = Block(tuple(map(self.value, block.arguments)), [])
        for op in block.ops:
            self.op(op, made.ops)
        return made

    def op(self, op: Op, into: list[Op]) -> None:
        """One op, as it is."""
        operands = tuple(self.values[value] for value in op.operands)
        regions = tuple(self.block(region) for region in op.regions)
        into.append(Op(op.signature, operands, tuple(map(self.value, op.results)), regions, op.location))

    def emit(self, into: list[Op], signature: Signature, operands: tuple[int, ...], location: int) -> int:
        """An op of one result that the source does not have; its result."""
        result = self.target.new_value(signature.results[0])
        into.append(Op(signature, operands, (result,), (), location))
        return result


def without_donation(graph: Graph) -> Graph:
    """The graph, its arguments' buffers kept: a variant is run more than once and may have results of other types."""
    main = graph.main
    main.argument_attributes = [
        {name: text for name, text in row.items() if name not in _DONATION} for row in main.argument_attributes
    ]
    return graph
