"""Indices of gathers and scatters, as seen from a shard.

An index vector names a place in the whole operand. A device that holds a part of it subtracts where its part starts
and looks whether the place is its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.axes import Axes
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import reduction_body
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.checks import require_whole
from shardwright.partition.localize.local import Local
from shardwright.sharding import TensorSharding

__all__ = ["IndexSpace", "Shifted", "all_inside", "index_space", "require_whole_vector", "shift", "signed"]


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


@dataclass(frozen=True, slots=True)
class Shifted:
    """Indices relative to the shard, signed, and whether each points into it (both with the vector dimension)."""

    indices: int
    inside: int


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


def shift(ctx: Local, indices: int, space: IndexSpace, clamp: bool) -> Shifted:
    """`indices` counted from the start of the shard; with `clamp`, after clamping them to the whole operand.

    Components in dimensions that are whole keep their value and count as inside.
    """
    counted = signed(ctx, indices, space.limits, 1)
    if clamp:
        zero = ctx.constant(0, ctx.type(counted))
        counted = ctx.binary("maximum", counted, zero)
        counted = ctx.binary("minimum", counted, _vector(ctx, list(space.limits), counted, space.vector))
    starts = _starts(ctx, counted, space)
    sizes = [part[1] if part else 0 for part in space.parts]
    zero = ctx.constant(0, ctx.type(counted))
    # In range first, in the whole: the difference of a wild index and a start may wrap round.
    ends = ctx.binary("add", starts, _vector(ctx, sizes, counted, space.vector))
    inside = ctx.binary("and", ctx.compare(counted, starts, "GE"), ctx.compare(counted, ends, "LT"))
    shifted = ctx.binary("subtract", counted, starts)
    whole = [part is None for part in space.parts]
    if any(whole):
        everywhere = _flags(ctx, whole, counted, space.vector)
        inside = ctx.binary("or", inside, everywhere)
    return Shifted(ctx.select(inside, shifted, zero) if clamp else shifted, inside)


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


def _vector(ctx: Local, values: list[int], like: int, vector: int) -> int:
    """One constant per component, in the shape of the indices."""
    type = ctx.type(like)
    if len(set(values)) == 1:
        return ctx.constant(values[0], type)
    return ctx.broadcast(ctx.integers(values, type.dtype), type.dims, (vector,))


def _flags(ctx: Local, values: list[bool], like: int, vector: int) -> int:
    type = TensorType(ctx.type(like).dims, "i1")
    if len(set(values)) == 1:
        return ctx.constant(values[0], type)
    row = TensorType((len(values),), "i1")
    text = ", ".join("true" if value else "false" for value in values)
    constant = ctx.emit("constant", (), row, {"value": f"dense<[{text}]> : {row}"})
    return ctx.broadcast(constant, type.dims, (vector,))


def all_inside(ctx: Local, inside: int, vector: int) -> int:
    """Whether all components of each index vector are inside: `inside` without its vector dimension."""
    type = ctx.type(inside)
    if vector == type.rank:
        return inside
    shape = tuple(size for dim, size in enumerate(type.dims) if dim != vector)
    if type.dims[vector] == 1:
        return ctx.reshape(inside, shape)
    true = ctx.constant(True, TensorType((), "i1"))
    body = reduction_body("and", "i1")
    return ctx.emit("reduce", (inside, true), type.with_shape(shape), {"dimensions": i64_array([vector])}, (body,))


def require_whole_vector(what: str, vector: int, sharding: TensorSharding) -> None:
    """Index vectors are not split.

    Raises:
        ShardingError: they are.
    """
    if vector < sharding.rank:
        require_whole(what, [vector], sharding)
