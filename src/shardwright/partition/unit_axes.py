"""Explicit programs without the axes of size 1, which split nothing: collectives along them alone are none.

Propagation takes them out of shardings; a program that comes with its collectives has them still, as one has that is
written for a mesh of any size and run on a small one.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.axes import Axes
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.propagation.steps.boundary import without_size_one_axes
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, AllToAll, CollectivePermute, Step, ToUnreduced

__all__ = ["without_unit_axes"]


def without_unit_axes(graph: Graph) -> Graph:
    """An explicit program whose layouts and collectives name no axis of size 1. The graph given is left as it is.

    One with manual computations, which name axes themselves, is given back as it is.
    """
    if all(size > 1 for mesh in graph.used_meshes for _, size in mesh.axes) or any(
        op.name == MANUAL for op in graph.walk()
    ):
        return graph
    main = graph.main
    return replace(
        graph,
        shardings=[_layout(sharding) for sharding in graph.shardings],
        main=replace(
            main,
            block=_block(main.block, {}),
            result_shardings=[_layout(sharding) for sharding in main.result_shardings],
        ),
    )


def _layout(sharding: TensorSharding | None) -> TensorSharding | None:
    return None if sharding is None else without_size_one_axes(sharding)


def _block(block: Block, same: dict[int, int]) -> Block:
    """A block; `same` tells of values that a collective left as they are which values they are."""
    ops: list[Op] = []
    for op in block.ops:
        operands = tuple([same.get(value, value) for value in op.operands])
        signature = op.signature
        if signature.step is not None:
            step = _stripped(signature.step)
            if step is None:
                same[op.results[0]] = operands[0]
                continue
            signature = replace(signature, step=step)
        regions = tuple([_block(region, same) for region in op.regions])
        ops.append(Op(signature, operands, op.results, regions, op.location))
    return Block(block.arguments, ops)


def _kept(axes: Axes) -> Axes:
    return tuple([axis for axis in axes if axis.size > 1])


def _stripped(step: Step) -> Step | None:
    """The step along the axes that are of another size; `None` where there are none."""
    if isinstance(step, CollectivePermute):
        return CollectivePermute(without_size_one_axes(step.target))
    if isinstance(step, AllToAll):
        moves = tuple([(_kept(axes), source, target) for axes, source, target in step.moves if _kept(axes)])
        return AllToAll(moves) if moves else None
    if isinstance(step, AllReduce | ToUnreduced):
        return replace(step, axes=_kept(step.axes)) if _kept(step.axes) else None
    lists = tuple(map(_kept, step.axes))
    return replace(step, axes=lists) if any(lists) else None
