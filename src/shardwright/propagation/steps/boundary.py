"""The first and the last steps: what shardings look like on the way in and on the way out.

In: axes of size 1 split nothing and are taken away. Out: edges, groups and constraints disappear (a constraint becomes
a reshard to its sharding); what the caller sees, arguments and results of `main` and of manual computations, is split
evenly and by whole axes where propagation chose the axes; and all shardings are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shardwright.axes import Axes
from shardwright.boundary import with_manual_axes, without_manual_axes
from shardwright.ir.graph import Block, Op
from shardwright.ir.ops import MANUAL
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.propagation.working import CONSTRAINT, EDGE, GROUP, DataFlowEdge, Working
from shardwright.sharding import TensorSharding, replicated

__all__ = ["divisible", "leave", "outermost", "whole_axes", "without_size_one_axes"]


@memoize
def without_size_one_axes(sharding: TensorSharding) -> TensorSharding:
    """The same sharding without axes of size 1, and without priorities that this leaves without meaning."""
    if all(size > 1 for _, size in sharding.mesh.axes):
        return sharding

    def kept(axes: Axes) -> Axes:
        return tuple(axis for axis in axes if axis.size > 1)

    dims = tuple(
        replace(dim, axes=kept(dim.axes), priority=dim.priority if dim.open or kept(dim.axes) else None)
        for dim in sharding.dims
    )
    partial = tuple(p for p in sharding.partial if p.axis.size > 1)
    return replace(sharding, dims=dims, replicated=kept(sharding.replicated), partial=partial)


@memoize
def divisible(sharding: TensorSharding, shape: tuple[int, ...]) -> TensorSharding:
    """The longest major part of the axes of each dimension that splits it evenly; the priority of one cut is gone."""
    even = sharding.evenly_dividing(shape)
    pairs = zip(sharding.dims, even.dims, strict=True)
    return replace(even, dims=tuple(cut if cut == dim else replace(cut, priority=None) for dim, cut in pairs))


@memoize
def whole_axes(sharding: TensorSharding) -> TensorSharding:
    """Open dimensions without sub-axes and what is minor to them: no caller can name a part of an axis."""
    dims = []
    for dim in sharding.dims:
        axes = dim.axes
        if dim.open:
            whole = [sharding.mesh.is_full(axis) for axis in axes]
            axes = axes[: whole.index(False)] if False in whole else axes
        dims.append(replace(dim, axes=axes))
    return replace(sharding, dims=tuple(dims))


def outermost(sharding: TensorSharding | None, type: TensorType) -> TensorSharding | None:
    """A sharding of an argument or result of `main` as its caller sees it, still open where it was."""
    if sharding is None or not type.is_tensor:
        return sharding
    return whole_axes(divisible(sharding, type.dims))


def leave(working: Working, meshes: Iterable[Mesh]) -> None:
    """Take edges, groups and constraints out, spread shardings over edges' targets, and close everything."""
    for edge in working.edges.values():
        for value in (edge.owner, *edge.targets):
            working.shardings[value] = working.shardings[edge.value]
    _set_boundaries(working)
    for value in working.block.arguments:
        working.shardings[value] = outermost(working.shardings[value], working.types[value])
    if working.special or working.edges:
        owners = {edge.value: edge.owner for edge in working.edges.values()}
        for block in working.block.blocks():
            _clean(block, owners)
    _close(working, next((mesh for mesh in meshes if mesh.axes), None))


def _set_boundaries(working: Working) -> None:
    """Let each computation state the shardings found at its boundary."""
    inward: dict[Op, list[DataFlowEdge]] = {}
    for edge in working.edges.values():
        if edge.parent.name.startswith("sdy."):
            sharding = working.shardings[edge.owner]
            if not edge.inward:
                sharding = _of_result(edge, sharding)
            if sharding is not None:
                working.shardings[edge.owner] = divisible(sharding, working.types[edge.owner].dims)
            if edge.inward:
                inward.setdefault(edge.parent, []).append(edge)
    for op, edges in inward.items():
        _state(working, op, True, [_at_boundary(working, edge) for edge in edges])
    for op in {edge.parent: None for edge in working.edges.values() if edge.parent.name.startswith("sdy.")}:
        _state(working, op, False, [working.shardings[value] for value in op.results])


def _of_result(edge: DataFlowEdge, sharding: TensorSharding | None) -> TensorSharding | None:
    """The sharding of a computation's result; an edge that was given may have none, or one without manual axes."""
    if edge.boundary is None or edge.parent.name != MANUAL or sharding is None:
        return edge.boundary if sharding is None else sharding
    manual = edge.parent.signature.boundary.manual_axes
    outside = with_manual_axes(edge.boundary, without_manual_axes(sharding, manual), manual)
    return sharding if outside.axes == sharding.axes else outside


def _at_boundary(working: Working, edge: DataFlowEdge) -> TensorSharding | None:
    inside = working.shardings[edge.owner]
    if edge.boundary is None or edge.parent.name != MANUAL:
        return inside
    if inside is None:  # an edge that was given, and of which nothing was known in the end
        return edge.boundary
    return with_manual_axes(edge.boundary, inside, edge.parent.signature.boundary.manual_axes)


def _state(working: Working, op: Op, inward: bool, shardings: list[TensorSharding | None]) -> None:
    """Let a computation state how its operands, or its results, lie, if anything is known of them."""
    some = next((sharding for sharding in shardings if sharding is not None), None)
    values = op.operands if inward else op.results
    if some is None or len(shardings) != len(values):
        return
    closed = tuple(
        (own or replicated(some.mesh, working.types[value].rank)).closed()
        for own, value in zip(shardings, values, strict=True)
    )
    boundary = op.signature.boundary
    changed = replace(boundary, in_shardings=closed) if inward else replace(boundary, out_shardings=closed)
    op.signature = replace(op.signature, boundary=changed)


def _clean(block: Block, owners: dict[int, int]) -> None:
    ops: list[Op] = []
    for op in block.ops:
        name = op.signature.name
        if name in (EDGE, GROUP):
            continue
        if name == CONSTRAINT:
            op.signature = replace(op.signature, name="sdy.reshard")
        if owners:
            op.operands = tuple([owners.get(value, value) for value in op.operands])
        ops.append(op)
    block.ops = ops


def _close(working: Working, mesh: Mesh | None) -> None:
    closed: dict[int, TensorSharding] = {}  # by identity, which engines keep apart
    originals: list[TensorSharding] = []  # kept, so that no other takes over an identity
    bare: dict[int, TensorSharding] = {}  # by rank
    shardings, types = working.shardings, working.types
    for value, sharding in enumerate(shardings):
        if sharding is None:
            shape = types[value].shape
            if mesh is not None and shape is not None:
                rank = len(shape)
                shardings[value] = bare.get(rank) or bare.setdefault(rank, replicated(mesh, rank))
            continue
        answer = closed.get(id(sharding))
        if answer is None:
            answer = closed[id(sharding)] = sharding.closed()
            originals.append(sharding)
        shardings[value] = answer
