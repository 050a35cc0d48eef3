"""Tensors between torch and JAX, by DLPack."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

import jax
import torch

__all__ = ["to_jax", "to_torch"]


def to_jax(tensor: Any) -> jax.Array:
    """A copy of a tensor, on JAX's device of the same kind.

    It is torch that copies: what JAX is given is then its own, to be donated, and what torch writes later is not seen.
    (`from_dlpack(copy=True)` of jax 0.10 hands on the memory itself.)
    """
    own = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    with jax.enable_x64(True):  # else 64 bits would become 32
        return cast(jax.Array, jax.dlpack.from_dlpack(own))


def to_torch(array: jax.Array) -> Any:
    """A tensor with the whole of an array, on the first of its devices; it may be the array's own memory."""
    if len(array.sharding.device_set) > 1:
        first = min(array.sharding.device_set, key=attrgetter("id"))
        array = jax.device_put(array, jax.sharding.SingleDeviceSharding(first))
    return torch.from_dlpack(array.block_until_ready())
