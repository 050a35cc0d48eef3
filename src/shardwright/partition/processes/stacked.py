"""Arguments and results with a first dimension along which devices can be told apart."""

from __future__ import annotations

from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Graph, Op

__all__ = ["stacked"]


def stacked(graph: Graph) -> Graph:
    """A per-device program whose tensors at the boundary are `1 x …`: the rows of one global tensor, one a device."""
    stack = graph.skeleton()
    stack.types, stack.shardings = list(graph.types), list(graph.shardings)
    block = graph.main.block
    before: list[Op] = []
    builder = Builder(stack, before)
    arguments = []
    for argument in block.arguments:
        type = graph.types[argument]
        arguments.append(stack.new_value(type.with_shape((1, *type.dims))))
        builder.reshape(arguments[-1], type.dims)
        before[-1].results = (argument,)
    *middle, last = block.ops
    after: list[Op] = []
    builder = Builder(stack, after)
    results = tuple(builder.reshape(value, (1, *graph.types[value].dims)) for value in last.operands)
    signature = last.signature.replace(operands=tuple(stack.types[value] for value in results))
    stack.main.block = Block(
        tuple(arguments), [*before, *middle, *after, Op(signature, results, (), (), last.location)]
    )
    return stack
