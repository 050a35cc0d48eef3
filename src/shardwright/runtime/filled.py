"""Uneven arrays where JAX meets them: its shardings divide, so it holds them filled up, and never shows that.

The caller has an array of 7 rows, laid out by what divides of its sharding. The program takes and gives 4 shards of 2
rows. In between the array is padded to 8 rows on the devices, or cut to 7 behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

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
        filled: tuple[int, ...],
        outside: jax.sharding.NamedSharding,
        inside: jax.sharding.NamedSharding,
    ) -> None:
        """Nothing is computed yet."""
        self.shape = shape
        self.filled = filled
        self.outside = outside
        self.inside = inside
        widths = [(0, new - old) for old, new in zip(shape, filled, strict=True)]
        self._fill = jax.jit(lambda array: jnp.pad(array, widths), out_shardings=inside)
        self._cut = jax.jit(lambda array: array[tuple(map(slice, shape))], out_shardings=outside)

    def fill(self, value: Any) -> jax.Array:
        """An array filled up, laid out as the program takes it."""
        filled: jax.Array = self._fill(jax.device_put(value, self.outside))
        return filled

    def cut(self, parts: Sequence[jax.Array]) -> jax.Array:
        """The array whose shards a program gave, without what they are filled up with."""
        whole = jax.make_array_from_single_device_arrays(self.filled, self.inside, list(parts))
        array: jax.Array = self._cut(whole)
        return array
