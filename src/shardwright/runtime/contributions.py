"""Contributions that JAX has no sharding for: it knows arrays that await a sum, and no other kind of reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from shardwright.mesh import axes_size
from shardwright.runtime.placement import named_shardings
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["Stack", "stack_of"]

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "max": jnp.maximum,
    "min": jnp.minimum,
    "product": jnp.multiply,
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
}


@dataclass(frozen=True)
class Stack:
    """The contributions to an array as the rows of one that JAX can hold.

    Attributes:
        depth: How many there are.
        rows: How the stack lies, its first dimension split along the axes that the array is partial along.
        combine: Of two contributions, what both make.
    """

    depth: int
    rows: jax.sharding.NamedSharding
    combine: Callable[[Any, Any], Any]

    def complete(
        self, shape: Sequence[int], parts: Sequence[jax.Array], sharding: jax.sharding.NamedSharding
    ) -> jax.Array:
        """The array of `shape` that devices hold contributions to, laid out as `sharding`."""
        rows = [part[None] for part in parts]
        stacked = jax.make_array_from_single_device_arrays((self.depth, *shape), self.rows, rows)
        # one by one: XLA's collectives on CPUs know no bitwise reductions of integers
        completed: jax.Array = jax.jit(lambda rows: reduce(self.combine, rows), out_shardings=sharding)(stacked)
        return completed


def stack_of(sharding: TensorSharding, devices: Sequence[Any] | None) -> Stack | None:
    """How contributions that lie so are stacked; `None` where there are none or JAX knows their kind."""
    kind = next((p.kind for p in sharding.partial if p.kind != "sum"), None)
    if kind is None:
        return None
    rows = TensorSharding(sharding.mesh, (DimSharding(sharding.partial_axes), *sharding.dims))
    (named,) = named_shardings([rows], devices)
    return Stack(axes_size(sharding.partial_axes), named, _COMBINE[kind])
