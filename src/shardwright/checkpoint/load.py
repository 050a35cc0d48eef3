"""Reading arrays by a plan: each process reads the slices that its devices are to hold, whoever wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardwright.checkpoint.index import Stored, read_index
from shardwright.checkpoint.safetensors import dtype_of, mapped
from shardwright.checkpoint.trees import named_leaves
from shardwright.errors import ShardingError
from shardwright.files import check_path
from shardwright.runtime.arrays import Array
from shardwright.words import counted, kind_of

__all__ = ["load_arrays"]

_SHOWN = 5
_ORBAX_FILES = ("_CHECKPOINT_METADATA", "_METADATA")


def load_arrays(path: str | os.PathLike[str], like: Any = None) -> Any:
    """Read arrays that `save_arrays` wrote, from any mesh to any other; or others' files of safetensors, or of Orbax.

    Nothing is sent between processes: each reads the slices that its own devices hold.

    Arguments:
        path: The folder of the checkpoint, or one file of safetensors.
        like: A pytree that says which arrays to read, by the same names, and how each is to lie: a `NamedSharding`, as
            in `plan.in_shardings`; a `jax.ShapeDtypeStruct`, with a sharding or without; or an array that is like it.
            Without it, all of them, whole.

    Returns:
        The same pytree with a `jax.Array` in place of each, or a numpy array where no sharding is said; without `like`,
        numpy arrays by name.

    Raises:
        ShardingError: no checkpoint, one that is not whole or of a later version, an array that it does not have, or
            that has another shape or type of elements than `like` says.

    Example:
        params = load_arrays("checkpoint", {"params": plan.in_shardings[0]})["params"]
    """
    check_path(path)
    folder = Path(os.fsdecode(path))
    if any((folder / name).exists() for name in _ORBAX_FILES):
        from shardwright.checkpoint.orbax import OrbaxReader

        return _filled(OrbaxReader(folder), like)
    return _filled(Files(folder), like)


class Files:
    """Arrays in files of safetensors.

    Attributes:
        types: The shape and the type of elements of each, by name.
    """

    def __init__(self, path: Path) -> None:
        """Read the index; raises as `read_index`."""
        self._stored = read_index(path)
        self.path = path
        self.types = {name: (one.shape, dtype_of(one.dtype)) for name, one in self._stored.items()}

    def read(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Each of the wanted arrays, laid out as said; whole where nothing is."""
        return {name: self._read(self._stored[name], sharding) for name, sharding in wanted.items()}

    def _read(self, stored: Stored, sharding: Any) -> Any:
        if sharding is None:
            return _slice_of(stored, tuple(slice(0, size) for size in stored.shape))
        slices = _Slices(stored)
        with jax.enable_x64(True):
            return jax.make_array_from_callback(stored.shape, sharding, slices)


@dataclass
class _Slices:
    """The slices of an array that devices ask for; copies of one are read once."""

    stored: Stored
    known: dict[Any, Array] = field(default_factory=dict)

    def __call__(self, index: tuple[slice, ...] | None) -> Array:
        wanted = tuple(slice(*one.indices(size)[:2]) for one, size in zip(index or (), self.stored.shape, strict=True))
        key = tuple((one.start, one.stop) for one in wanted)
        if key not in self.known:
            self.known[key] = _slice_of(self.stored, wanted)
        return self.known[key]


def _slice_of(stored: Stored, wanted: tuple[slice, ...]) -> Array:
    """A slice of an array, put together from what pieces have of it."""
    result = np.zeros([one.stop - one.start for one in wanted], dtype_of(stored.dtype))
    for piece in stored.pieces:
        bounds = [
            (max(one.start, begin), min(one.stop, begin + size))
            for one, begin, size in zip(wanted, piece.start, piece.entry.shape, strict=True)
        ]
        if any(low >= high for low, high in bounds):
            continue
        into = tuple(slice(low - one.start, high - one.start) for (low, high), one in zip(bounds, wanted, strict=True))
        out = tuple(slice(low - at, high - at) for (low, high), at in zip(bounds, piece.start, strict=True))
        result[into] = mapped(piece.file, piece.entry)[out]
    return result


def _filled(reader: Any, like: Any) -> Any:
    """The pytree `like` with the arrays of a checkpoint."""
    if like is None:
        return reader.read(dict.fromkeys(reader.types))
    leaves, structure = named_leaves(like)
    wanted = {name: _wanted(reader, name, leaf) for name, leaf in leaves.items()}
    arrays = reader.read(wanted)
    return jax.tree.unflatten(structure, [arrays[name] for name in leaves])


def _wanted(reader: Any, name: str, leaf: Any) -> Any:
    """How an array is to lie, after a look at whether there is one such."""
    if name not in reader.types:
        known = list(reader.types)
        more = f", … ({counted(len(known), 'array')})" if len(known) > _SHOWN else ""
        raise ShardingError(
            f"the checkpoint has no array {name!r}",
            location=str(reader.path),
            cause=f"it has {', '.join(known[:_SHOWN])}{more}" if known else "it is empty",
            remedy="ask for arrays by the names they were written under: a pytree within a dict of the same keys",
        )
    shape, dtype = reader.types[name]
    if isinstance(leaf, jax.sharding.Sharding):
        _check_divides(reader, name, shape, leaf.shard_shape)
        return leaf
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise ShardingError(
            f"not what array {name!r} is to be like: {leaf!r}"[:200],
            cause=f"it is {kind_of(leaf)}",
            remedy="give a NamedSharding, a jax.ShapeDtypeStruct, or an array",
        )
    if (tuple(leaf.shape), np.dtype(leaf.dtype)) != (shape, dtype):
        raise ShardingError(
            f"array {name!r} is {dtype}{list(shape)}, {leaf.dtype}{list(leaf.shape)} is asked for",
            location=str(reader.path),
            remedy="ask for what is there, and convert it then",
        )
    sharding = getattr(leaf, "sharding", None)
    if sharding is not None:
        _check_divides(reader, name, shape, sharding.shard_shape)
    return sharding


def _check_divides(reader: Any, name: str, shape: tuple[int, ...], shard_shape: Callable[[Any], Any]) -> None:
    try:
        shard_shape(shape)
    except ValueError as error:
        raise ShardingError(
            f"array {name!r} of shape {list(shape)} cannot be laid out as asked for",
            location=str(reader.path),
            cause=str(error).split("\n", 1)[0],
            remedy="give a sharding of which its dimensions are multiples",
        ) from None
