"""Ops that communicate inside: reductions other than sums.

Between ops this version of sdy knows partial sums only. An op whose split leaves partial maxima (or minima, products,
…) becomes an `sdy.manual_computation` over all axes of the mesh: the op on one device's shards, followed by the
StableHLO collectives that combine them, so that later stages see what is communicated.
"""

from __future__ import annotations

from shardwright.boundary import Boundary
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Block, Op
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.decisions import Computed
from shardwright.partition.localize import Local, local_step, local_type, localize_op
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["emit_reduced"]


def emit_reduced(
    builder: Builder,
    signature: Signature,
    operands: list[int],
    decision: Computed,
) -> tuple[tuple[int, ...], tuple[TensorSharding, ...]]:
    """Append an op whose partial results are reduced on the spot.

    Arguments:
        builder: Where to append.
        signature: The op at global types.
        operands: Values that lie as the decision says.
        decision: How the op is computed, on tensors, and the steps that its results take within it.

    Returns:
        The results and how they lie.
    """
    graph = builder.graph
    read = tuple([layout for layout in decision.operands if layout is not None])
    computed = tuple([layout for layout in decision.results if layout is not None])
    arguments = tuple(
        graph.new_value(local_type(type, layout)) for type, layout in zip(signature.operands, read, strict=True)
    )
    ops: list[Op] = []
    ctx = Local(graph, ops, builder.location)
    ctx.mesh = Mesh(ctx.mesh.axes, name=ctx.mesh.name)  # a manual computation names devices by their ids
    made = localize_op(ctx, signature, arguments, read, computed)
    reduced = [
        _reduce(ctx, value, layout, steps) for value, layout, steps in zip(made, computed, decision.within, strict=True)
    ]
    values, layouts = tuple(value for value, _ in reduced), tuple(layout for _, layout in reduced)
    returns = Signature("sdy.return", (), tuple(graph.types[value] for value in values), ())
    ctx.append(returns, values)
    boundary = Boundary(read, layouts, tuple(computed[0].mesh.sizes))
    whole = Signature("sdy.manual_computation", (), signature.operands, signature.results, boundary=boundary)
    return builder.append(whole, operands, layouts, (Block(arguments, ops),)), layouts


def _reduce(ctx: Local, value: int, layout: TensorSharding, steps: tuple[Step, ...]) -> tuple[int, TensorSharding]:
    """Take steps from `layout` on one device's shards; what comes of it, and how it lies."""
    for step in steps:
        before, layout = layout, step.apply(layout)
        value = local_step(ctx, value, step, before, layout)
    return value, layout
