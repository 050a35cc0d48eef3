"""Contributions: arrays that await a sum, made of complete ones; and other kinds, for which JAX has no sharding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.axes import axes_size
from shardwright.runtime.placement import named_shardings
from shardwright.runtime.shared import put
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["Stack", "contributed", "stack_of"]

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


def contributed(value: Any, sharding: jax.sharding.NamedSharding) -> Any:
    """An array laid out so: where it shall await a sum, the first device along the axes has its part, the others zeros.

    `jax.device_put` does the same, but in JAX 0.12 it fails on what it has made.
    """
    unreduced = sharding.spec.unreduced
    given = getattr(value, "sharding", None)
    if not unreduced or (isinstance(given, jax.sharding.NamedSharding) and given.spec.unreduced):
        return put(value, sharding)
    spec = jax.sharding.PartitionSpec(*sharding.spec.partitions)
    whole = put(value, jax.sharding.NamedSharding(sharding.mesh, spec, memory_kind=sharding.memory_kind))
    axes = [number for number, name in enumerate(sharding.mesh.axis_names) if name in unreduced]
    others = {
        device for place, device in np.ndenumerate(sharding.mesh.devices) if any(place[number] for number in axes)
    }
    parts = [
        jax.device_put(np.zeros(shard.data.shape, shard.data.dtype), shard.data.sharding)
        if shard.device in others
        else shard.data
        for shard in whole.addressable_shards
    ]
    return jax.make_array_from_single_device_arrays(whole.shape, sharding, parts)
