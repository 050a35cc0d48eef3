"""Indices of gathers and scatters, as seen from a shard.

An index vector names a place in the whole operand. A device that holds a part of it subtracts where its part starts.
Of a scatter that is all: StableHLO drops what does not fit into the operand, and so each device what is not its own. A
gather takes the nearest element instead, so the device asks as well whether the place is its own. What lies outside of
the whole operand is so of the device that has its first elements, or its last ones.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from shardwright.axes import Axes
from shardwright.ir.types import TensorType, bit_width
from shardwright.mesh import Mesh
from shardwright.partition.localize.checks import require_whole
from shardwright.partition.localize.local import Local, identity_value
from shardwright.partition.localize.shifts import cut
from shardwright.sharding import TensorSharding

__all__ = ["IndexSpace", "index_space", "inside", "require_whole_vector", "shift", "signed"]


@dataclass(frozen=True, slots=True)
class IndexSpace:
    """What index vectors point into.

    Attributes:
        vector: Dimension of the indices that holds the components; their rank where each index is a scalar.
        limits: For each component, the largest index that StableHLO does not clamp or drop.
        parts: For each component, the axes that split its dimension and the elements of a shard; `None` where whole.
        sharding: Any sharding on the mesh.
    """

    vector: int
    limits: tuple[int, ...]
    parts: tuple[tuple[Axes, int] | None, ...]
    sharding: TensorSharding


def index_space(
    dims: tuple[int, ...],
    vector: int,
    shape: tuple[int, ...],
    sizes: dict[int, int],
    sharding: TensorSharding,
    local: tuple[int, ...],
    masked: list[int],
) -> IndexSpace:
    """The index space of an operand of global `shape`: index components count in its `dims`, slices have `sizes`."""
    parts = tuple((sharding.axes[dim], local[dim]) if dim in masked else None for dim in dims)
    return IndexSpace(vector, tuple(shape[dim] - sizes.get(dim, 1) for dim in dims), parts, sharding)


def signed(ctx: Local, indices: int, limits: tuple[int, ...], slack: int) -> int:
    """The indices as `i32` or `i64`, none of them changed in what it means.

    Unsigned ones beyond every limit become `slack` past the largest limit first: their bits would read as negative.
    """
    type = ctx.type(indices)
    largest = max(limits, default=0) + slack
    wide = "i64" if bit_width(type.dtype) > 32 or largest >= (1 << 31) - 1 else "i32"
    if not type.dtype.startswith("ui"):
        return ctx.convert(indices, wide)
    indices = ctx.convert(indices, "u" + wide if bit_width(type.dtype) < bit_width(wide) else type.dtype)
    bound = ctx.constant(largest, ctx.type(indices))
    return ctx.convert(ctx.binary("minimum", indices, bound), wide)


def shift(ctx: Local, indices: int, space: IndexSpace) -> int:
    """Signed `indices`, counted from the start of the shard; components in dimensions that are whole stay as they are.

    None that points beside the shard points into it then: wild ones wrap round to what is far beyond any end.
    """
    return ctx.binary("subtract", indices, _starts(ctx, indices, space))


def inside(ctx: Local, indices: int, space: IndexSpace) -> int:
    """Whether each of signed index vectors points into this shard, as StableHLO clamps it to the whole operand."""
    flags = [
        _within(ctx, _component(ctx, indices, number, space.vector), part, space.limits[number], space.sharding.mesh)
        for number, part in enumerate(space.parts)
        if part is not None
    ]
    return functools.reduce(functools.partial(ctx.binary, "and"), flags)


def _within(ctx: Local, component: int, part: tuple[Axes, int], limit: int, mesh: Mesh) -> int:
    """Whether a component is in this shard, or outside of the operand beside it."""
    (axes, rows), type = part, ctx.type(component)
    least, most = (ctx.constant(int(identity_value(kind, type.dtype)), type.with_shape(())) for kind in ("max", "min"))
    start = ctx.offset(axes, rows, mesh, type.dtype)
    last = ctx.binary("add", start, ctx.constant(rows - 1, type.with_shape(())))
    first_place = ctx.constant(0, type.with_shape(()))
    last_place = ctx.constant(limit, type.with_shape(()))
    low = ctx.select(ctx.compare(start, first_place, "EQ"), least, start)
    high = ctx.select(ctx.compare(last, last_place, "EQ"), most, last)
    bounds = [ctx.broadcast(bound, type.dims) for bound in (low, high)]
    return ctx.binary("and", ctx.compare(component, bounds[0], "GE"), ctx.compare(component, bounds[1], "LE"))


def _component(ctx: Local, indices: int, number: int, vector: int) -> int:
    """One component of index vectors, without the dimension that holds these."""
    type = ctx.type(indices)
    if vector == type.rank:
        return indices
    kept = cut(ctx, indices, vector, number, 1)
    return ctx.reshape(kept, tuple(size for dim, size in enumerate(type.dims) if dim != vector))


def _starts(ctx: Local, like: int, space: IndexSpace) -> int:
    """Where the shard starts, for each component, in the shape of the indices."""
    type = ctx.type(like)
    mesh = space.sharding.mesh
    scalars = [
        ctx.constant(0, TensorType((), type.dtype)) if part is None else ctx.offset(*part, mesh, type.dtype)
        for part in space.parts
    ]
    if space.vector == type.rank:
        return ctx.broadcast(scalars[0], type.dims)
    ones = [ctx.reshape(scalar, (1,)) for scalar in scalars]
    row = ones[0]
    if len(ones) > 1:
        row = ctx.emit("concatenate", ones, TensorType((len(ones),), type.dtype), {"dimension": "0 : i64"})
    return ctx.broadcast(row, type.dims, (space.vector,))


def require_whole_vector(what: str, vector: int, sharding: TensorSharding) -> None:
    """Index vectors are not split.

    Raises:
        ShardingError: they are.
    """
    if vector < sharding.rank:
        require_whole(what, [vector], sharding)
