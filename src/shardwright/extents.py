"""Which rows of a dimension each shard holds, where shards overlap by halos or are of sizes that offsets tell.

>>> from dataclasses import replace
>>> from shardwright.mesh import Mesh
>>> plain = TensorSharding.of(Mesh(x=4), [["x"]])
>>> cores(replace(plain, offsets=((0, 2, 5, 9, 14),)), (14,), 0)[1:3]
(Extent(start=2, stop=5, lead=0), Extent(start=5, stop=9, lead=0))
>>> held(replace(plain, halos=((1, 2),)), (8,), 0)[:2]
(Extent(start=0, stop=4, lead=1), Extent(start=1, stop=6, lead=0))
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from shardwright.axes import axes_size
from shardwright.memo import memoize
from shardwright.sharding import TensorSharding

__all__ = ["Extent", "bounded_dims", "cores", "filled_shape", "held", "unbounded"]


class Extent(NamedTuple):
    """Rows of a dimension that a shard holds.

    Attributes:
        start: The first of them.
        stop: The one behind the last.
        lead: At which row of the shard the first is.
    """

    start: int
    stop: int
    lead: int


def bounded_dims(sharding: TensorSharding) -> tuple[int, ...]:
    """The dimensions that have offsets or halos."""
    offsets, halos = (entries or (None,) * sharding.rank for entries in (sharding.offsets, sharding.halos))
    return tuple([dim for dim in range(sharding.rank) if offsets[dim] is not None or halos[dim] is not None])


def unbounded(sharding: TensorSharding) -> TensorSharding:
    """A sharding without its offsets and halos."""
    bounds = sharding.offsets or sharding.halos
    return sharding if bounds is None else replace(sharding, offsets=None, halos=None)


def filled_shape(sharding: TensorSharding, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape whose parts of one size are the shards of a tensor, each filled up to the largest."""
    sizes = zip(sharding.local_shape(shape), sharding.axes, strict=True)
    return tuple([size * axes_size(axes) for size, axes in sizes])


@memoize
def cores(sharding: TensorSharding, shape: tuple[int, ...], dim: int) -> tuple[Extent, ...]:
    """For each shard of a dimension its own rows, halos left out."""
    offsets = sharding.offsets[dim] if sharding.offsets else None
    if offsets is not None:
        return tuple([Extent(start, stop, 0) for start, stop in itertools.pairwise(offsets)])
    halo = (sharding.halos[dim] if sharding.halos else None) or (0, 0)
    size, shards = shape[dim], axes_size(sharding.axes[dim])
    rows = -(-size // shards)
    return tuple([Extent(min(at * rows, size), min((at + 1) * rows, size), halo[0]) for at in range(shards)])


@memoize
def held(sharding: TensorSharding, shape: tuple[int, ...], dim: int) -> tuple[Extent, ...]:
    """For each shard of a dimension all rows that it holds, those of its halos too that the tensor has."""
    halo = sharding.halos[dim] if sharding.halos else None
    own = cores(sharding, shape, dim)
    if halo is None:
        return own
    size, rows = shape[dim], -(-shape[dim] // len(own))
    extents: list[Extent] = []
    for at in range(len(own)):
        first = at * rows - halo[0]
        start, stop = max(first, 0), min((at + 1) * rows + halo[1], size)
        extents.append(Extent(min(start, stop), stop, start - first) if start < stop else Extent(size, size, 0))
    return tuple(extents)
