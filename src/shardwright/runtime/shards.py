"""A global array and the parts that devices hold: cutting, putting together, and whether copies agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.extents import Extent, cores, held
from shardwright.runtime.arrays import Array
from shardwright.sharding import TensorSharding

__all__ = ["ReplicaDifference", "assemble", "cut", "distance"]

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": np.add,
    "product": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@dataclass(frozen=True, slots=True)
class ReplicaDifference:
    """Two devices that should hold the same part of an output, and do not.

    Attributes:
        output: Number of the output.
        position: Position in the mesh of the device that differs.
        reference: Position of the first device that holds this part.
        difference: Norm of the difference relative to the norm of the part; infinite where one is not finite.
    """

    output: int
    position: int
    reference: int
    difference: float


def cut(array: Array, sharding: TensorSharding) -> list[Array]:
    """What each position of the mesh is given of `array`.

    Shards of uneven dimensions are filled up with zeros, and so are halos beyond the array. An input partial along axes
    goes to the first device along them; the others get what changes nothing.

    Raises:
        ShardingError: an input partial by a kind that has no identity.
    """
    local = sharding.local_shape(array.shape)
    filled: dict[tuple[int, ...], Array] = {}
    shards = []
    for position in range(sharding.mesh.listed):
        key = _part(sharding, position)
        if key not in filled:
            filled[key] = _shard(array, sharding, position, local)
        absent = [p.kind for p in sharding.partial if sharding.mesh.index((p.axis,), position)]
        shards.append(np.full(local, _identity(absent[-1], array.dtype), array.dtype) if absent else filled[key])
    return shards


def _identity(kind: str, dtype: np.dtype[Any]) -> Any:
    """What changes nothing in a reduction of `kind`."""
    if kind in ("sum", "or", "xor"):
        return dtype.type(0)
    if kind == "product":
        return dtype.type(1)
    if kind == "and":
        return ~np.zeros((), dtype)
    if kind not in ("max", "min"):
        raise ShardingError(f"an input partial by {kind!r} cannot be cut from a global array")
    if dtype.kind == "b":
        return np.bool_(kind == "min")
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    return dtype.type(float("-inf") if kind == "max" else float("inf"))


def _part(sharding: TensorSharding, position: int) -> tuple[int, ...]:
    return tuple(sharding.mesh.index(axes, position) for axes in sharding.axes)


def _shard(array: Array, sharding: TensorSharding, position: int, local: tuple[int, ...]) -> Array:
    extents = [held(sharding, array.shape, dim)[shard] for dim, shard in enumerate(_part(sharding, position))]
    part = array[tuple(slice(extent.start, extent.stop) for extent in extents)]
    if part.shape == local:
        return np.ascontiguousarray(part).reshape(local)  # numpy gives a scalar a dimension
    shard = np.zeros(local, array.dtype)
    shard[tuple(map(_inside, extents))] = part
    return shard


def _inside(extent: Extent) -> slice:
    """Where a shard has what it holds."""
    return slice(extent.lead, extent.lead + extent.stop - extent.start)


def assemble(
    shards: Sequence[Array], sharding: TensorSharding, shape: tuple[int, ...], output: int = 0
) -> tuple[Array, list[ReplicaDifference]]:
    """The global array that devices hold the parts of, and the copies that differ by so much as a bit, halos included.

    Arguments:
        shards: What each position of the mesh holds.
        sharding: How the array lies; contributions to a partial array are combined.
        shape: Its global shape.
        output: Number of the output, for the differences.
    """
    held: dict[tuple[tuple[int, ...], int], int] = {}
    differences = []
    pieces = [_within(shard, sharding, shape, position) for position, shard in enumerate(shards)]
    for position, piece in enumerate(pieces):
        contribution = sharding.mesh.index(sharding.partial_axes, position)
        first = held.setdefault((_part(sharding, position), contribution), position)
        if first != position and not _identical(piece, pieces[first]):
            differences.append(ReplicaDifference(output, position, first, distance(piece, pieces[first])))
    whole = np.zeros(shape, shards[0].dtype)
    filled: set[tuple[int, ...]] = set()
    for (part, _), position in held.items():
        where, piece = sharding.device_slice(shape, position), pieces[position]
        if part in filled:
            piece = _COMBINE[sharding.partial[0].kind](whole[where], piece)
        filled.add(part)
        whole[where] = piece
    if sharding.halos and not sharding.partial:
        wanted = cut(whole, sharding)
        apart = [at for at, shard in enumerate(shards) if not _identical(shard, wanted[at])]
        differences += [ReplicaDifference(output, at, at, distance(shards[at], wanted[at])) for at in apart]
    return whole, differences


def _within(shard: Array, sharding: TensorSharding, shape: tuple[int, ...], position: int) -> Array:
    """What of a shard is its own part of the array: behind the end of an uneven dimension it may hold anything."""
    parts = enumerate(_part(sharding, position))
    return shard[tuple([_inside(cores(sharding, shape, dim)[at]) for dim, at in parts])]


def _identical(left: Array, right: Array) -> bool:
    return left.tobytes() == right.tobytes()


def distance(left: Array, right: Array) -> float:
    """By how much two arrays differ, relative to the second one, in norm."""
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    one, other = left.astype(wide).ravel(), right.astype(wide).ravel()
    with np.errstate(invalid="ignore", over="ignore"):
        norm, difference = float(np.linalg.norm(other)), float(np.linalg.norm(one - other))
    if not np.isfinite(difference):
        return float("inf")
    return difference / norm if norm else difference
