"""Arguments and results of computations that have no data-flow edge: their sharding is what the boundary states.

Where an edge follows such a value, the edge holds its sharding. A propagation pass that runs by itself may meet
computations without edges; what is found then becomes part of what they state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardwright.boundary import Boundary, with_manual_axes, with_replicated, without_manual_axes
from shardwright.ir.graph import Op
from shardwright.ir.ops import COMPUTATIONS
from shardwright.propagation.working import Working
from shardwright.sharding import TensorSharding, replicated

__all__ = ["see_boundaries", "state_boundaries"]


def see_boundaries(working: Working) -> None:
    """Give arguments without an edge the sharding that their computation states, seen from inside."""
    for op in _computations(working):
        boundary = op.signature.boundary
        for index, argument in _without_edges(working, op):
            if boundary.in_shardings is not None:
                stated = boundary.in_shardings[index]
                working.shardings[argument] = without_manual_axes(stated, boundary.manual_axes)


def state_boundaries(working: Working) -> None:
    """Let computations state what was found for their arguments and results without an edge."""
    for op in _computations(working):
        boundary = op.signature.boundary
        inside = {index: working.shardings[argument] for index, argument in _without_edges(working, op)}
        outside = [None if value in working.holder else working.shardings[value] for value in op.results]
        mesh = next((sharding.mesh for sharding in (*inside.values(), *outside) if sharding is not None), None)
        if mesh is None:
            continue
        unsaid = [replicated(mesh, working.types[value].rank, open=True) for value in (*op.operands, *op.results)]
        entering, leaving = boundary.in_shardings, boundary.out_shardings
        if any(inside.values()):
            before = entering or unsaid[: len(op.operands)]
            stated = [_stated(one, inside.get(index), boundary.manual_axes) for index, one in enumerate(before)]
            entering = tuple(stated)
        if any(outside):
            pairs = zip(outside, leaving or unsaid[len(op.operands) :], strict=True)
            leaving = tuple([found or before for found, before in pairs])
        if (entering, leaving) != (boundary.in_shardings, boundary.out_shardings):
            op.signature = replace(op.signature, boundary=Boundary(entering, leaving, boundary.manual_axes))


def _stated(before: TensorSharding, inside: TensorSharding | None, manual: tuple[str, ...]) -> TensorSharding:
    if inside is None or inside == without_manual_axes(before, manual):
        return before
    return with_replicated(with_manual_axes(before, inside, manual), inside.replicated)


def _computations(working: Working) -> Iterator[Op]:
    for name in COMPUTATIONS:
        yield from working.special.get(name, ())


def _without_edges(working: Working, op: Op) -> Iterator[tuple[int, int]]:
    """The arguments of a computation's body that are tensors and have no edge, each with its place."""
    for index, argument in enumerate(op.regions[0].arguments):
        if working.types[argument].is_tensor and argument not in working.holder:
            yield index, argument
