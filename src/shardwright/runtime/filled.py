"""Uneven arrays where JAX meets them: its shardings divide, so it holds them filled up, and never shows that.

The caller has an array of 7 rows, laid out by what divides of its sharding. The program takes and gives 4 shards of 2
rows. In between the array is padded to 8 rows on the devices, or cut to 7 behind. So it is where shards are of sizes
that offsets tell, or have halos: the filled array holds each, and zeros behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.extents import bounded_dims, cores, filled_shape, held
from shardwright.runtime.shared import put
from shardwright.sharding import TensorSharding

__all__ = ["Filled"]


class Filled:
    """How an uneven array is handed to a program, or taken from it.

    Attributes:
        shape: Its own shape.
        filled: The shape of which shards are parts of one size.
        outside: How the caller has it.
        inside: How the filled one lies.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        sharding: TensorSharding,
        outside: jax.sharding.NamedSharding,
        inside: jax.sharding.NamedSharding,
    ) -> None:
        """Nothing is computed yet; the array lies in the program as `sharding` says."""
        self.shape = shape
        self.filled = filled_shape(sharding, shape)
        self.outside = outside
        self.inside = inside
        bounded = bounded_dims(sharding)
        widths = [
            (0, 0 if dim in bounded else new - old)
            for dim, (old, new) in enumerate(zip(shape, self.filled, strict=True))
        ]

        def fill(array: Any) -> Any:
            for dim in bounded:
                array = jnp.take(array, _rows_held(sharding, shape, dim), axis=dim, mode="fill", fill_value=0)
            return jnp.pad(array, widths)

        def cut(array: Any) -> Any:
            for dim in bounded:
                array = jnp.take(array, _places(sharding, shape, dim), axis=dim)
            return array[tuple(map(slice, shape))]

        self._fill = jax.jit(fill, out_shardings=inside)
        self._cut = jax.jit(cut, out_shardings=outside)

    def fill(self, value: Any) -> jax.Array:
        """An array filled up, laid out as the program takes it."""
        is_traced = isinstance(value, jax.core.Tracer)
        filled: jax.Array = self._fill(value if is_traced else put(value, self.outside))
        return filled

    def cut(self, parts: Sequence[jax.Array]) -> jax.Array:
        """The array whose shards a program gave, without what they are filled up with."""
        return self.cut_array(jax.make_array_from_single_device_arrays(self.filled, self.inside, list(parts)))

    def cut_array(self, whole: Any) -> jax.Array:
        """A filled array without what it is filled up with."""
        array: jax.Array = self._cut(whole)
        return array


def _rows_held(sharding: TensorSharding, shape: tuple[int, ...], dim: int) -> Any:
    """For each row of all shards which one of the array it is; one that is not there where it is none."""
    size = sharding.local_shape(shape)[dim]
    rows: list[Any] = []
    for extent in held(sharding, shape, dim):
        own = np.full(size, shape[dim])
        own[extent.lead : extent.lead + extent.stop - extent.start] = np.arange(extent.start, extent.stop)
        rows.append(own)
    return np.concatenate(rows)


def _places(sharding: TensorSharding, shape: tuple[int, ...], dim: int) -> Any:
    """For each row of the array where it is among those of all shards."""
    size = sharding.local_shape(shape)[dim]
    extents = enumerate(cores(sharding, shape, dim))
    return np.concatenate([at * size + one.lead + np.arange(one.stop - one.start) for at, one in extents])
