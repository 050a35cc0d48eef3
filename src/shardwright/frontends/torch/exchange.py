"""Tensors between torch and JAX, by DLPack."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

import jax
import torch

from shardwright.errors import ShardingError

__all__ = ["to_jax", "to_torch"]


def to_jax(tensor: Any) -> jax.Array:
    """A copy of a tensor, on JAX's device of the same kind.

    It is torch that copies: what JAX is given is then its own, to be donated, and what torch writes later is not seen.
    (`from_dlpack(copy=True)` of jax 0.10 hands on the memory itself.)

    Raises:
        ShardingError: a tensor without numbers.
    """
    if tensor.is_meta:
        raise ShardingError(
            f"a tensor of shape {list(tensor.shape)} has no numbers",
            cause="it is on torch's meta device, which is enough to plan a program and not to run it",
            remedy="make the module on a device: module.to_empty(device='cpu'), and load its parameters",
        )
    own = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    with jax.enable_x64(True):
        return cast(jax.Array, jax.dlpack.from_dlpack(own))


def to_torch(array: jax.Array) -> Any:
    """A tensor with the whole of an array, on the first of its devices; it may be the array's own memory."""
    if len(array.sharding.device_set) > 1:
        first = min(array.sharding.device_set, key=attrgetter("id"))
        with jax.enable_x64(True):  # else 64 bits would become 32
            array = jax.device_put(array, jax.sharding.SingleDeviceSharding(first))
    return torch.from_dlpack(array.block_until_ready())
