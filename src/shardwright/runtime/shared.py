"""Arrays over the devices of several processes, as `jax.distributed` joins them.

A process reaches its own devices only. What it has whole it cuts its own shards out of; what is spread over others is
gathered when somebody asks for it. In one process all of this is what JAX does anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from shardwright.errors import ShardingError
from shardwright.words import counted

__all__ = ["check_processes", "gather", "put"]

_DIGEST_WORDS = 8


def put(value: Any, sharding: jax.sharding.Sharding) -> Any:
    """`value` laid out as `sharding`.

    Where devices are of several processes too, each takes its own shards out of what it has whole: JAX's `device_put`
    would send all of it around to see that it is the same everywhere.

    Raises:
        ShardingError: an array that lies on the devices of other processes than these.
    """
    is_spread = isinstance(value, jax.Array) and not value.is_fully_addressable
    if is_spread and value.sharding.device_set != sharding.device_set:
        raise ShardingError(
            "an array lies on the devices of other processes than those that it is to go to",
            cause=f"it lies on {counted(len(value.sharding.device_set), 'device')}, the program has "
            f"{len(sharding.device_set)}",
            remedy="make it of each process's own shards: jax.make_array_from_callback(shape, sharding, shard)",
        )
    if is_spread or sharding.is_fully_addressable:
        return jax.device_put(value, sharding)
    whole = np.asarray(value)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def gather(arrays: Any) -> Any:
    """The arrays of a pytree whole, as numpy arrays, in every process.

    Every process must ask, and for the same arrays: those that are spread over several processes are sent around.

    Arguments:
        arrays: A pytree of arrays, such as what a compiled program returns.

    Returns:
        The same pytree, with a numpy array of the global shape in place of each.

    Raises:
        ShardingError: an array that awaits a sum: it has no elements yet.

    Example:
        >>> import jax.numpy as jnp
        >>> gather({"w": jnp.arange(3)})
        {'w': array([0, 1, 2], dtype=int32)}
    """
    with jax.enable_x64(True):
        return jax.tree.map(_gathered, arrays)


def _gathered(value: Any) -> Any:
    if isinstance(value, jax.Array) and isinstance(value.sharding, jax.sharding.NamedSharding):
        if value.sharding.spec.unreduced:
            raise ShardingError(
                "an array that awaits a sum cannot be gathered",
                cause=f"it is laid out as {value.sharding.spec}: what devices hold are contributions",
                remedy="let the program reduce it",
            )
        if not value.is_fully_addressable:
            return multihost_utils.process_allgather(value, tiled=True)
    return np.asarray(value)


def check_processes(module: str, devices: Sequence[Any]) -> None:
    """Check that every process that a program is compiled for compiles the same one, and has a part in it.

    Processes that run different programs wait for each other, or read each other's bytes as something else. Programs on
    a part of all devices are not compared: the other processes do not take part.

    Raises:
        ShardingError: none of the devices is of this process, or processes have different programs.
    """
    own, owners = jax.process_index(), {device.process_index for device in devices}
    if own not in owners:
        raise ShardingError(
            f"no device of the mesh belongs to process {own}",
            cause=f"its {counted(len(devices), 'device')} are of process {', '.join(map(str, sorted(owners)))}",
            remedy=f"take a mesh of all {len(jax.devices())} devices, or compile only in processes that have a part",
        )
    if len(owners) == 1 or len(owners) != jax.process_count():
        return
    digest = np.frombuffer(hashlib.sha256(module.encode()).digest(), np.uint32)
    rows = np.asarray(multihost_utils.process_allgather(digest)).reshape(-1, _DIGEST_WORDS)
    others = [number for number, row in enumerate(rows) if not np.array_equal(row, digest)]
    if others:
        raise ShardingError(
            f"process {own} compiles another program than process {', '.join(map(str, others))}",
            cause="the per-device programs differ, and their collectives would wait for each other",
            remedy="give every process the same function, shapes, mesh, shardings, hardware and versions",
        )
