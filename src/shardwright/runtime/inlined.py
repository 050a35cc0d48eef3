"""A per-device program as a function of JAX on whole arrays: what `jax.jit` compiles, and what it can be a part of.

The program runs in a `jax.shard_map` over all axes of its mesh, as it stands: XLA's partitioner finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from shardwright.ir.types import TensorType
from shardwright.runtime.arrays import numpy_dtype
from shardwright.runtime.embed import local_call
from shardwright.runtime.filled import Filled
from shardwright.runtime.placement import in_place, laid_out, mesh_here
from shardwright.runtime.python_calls import PythonCalls

__all__ = ["Inlined", "inlined"]

Inlined = Callable[..., tuple[Any, ...]]
"""Of the arguments of the module, whole arrays, its results."""


def inlined(
    module: str,
    local_results: Sequence[TensorType],
    named: Sequence[jax.sharding.NamedSharding],
    fillings: Sequence[Filled | None],
    devices: Sequence[Any],
    callbacks: PythonCalls,
) -> Inlined | None:
    """The function of a per-device module, or `None` where JAX has no words for how its values lie.

    That is so where they await a reduction, or lie on meshes of devices in several orders or of several cuts. Orders of
    elements in memory, which a module asks for of its arguments and results, are inside of another for that to choose.

    Arguments:
        module: MLIR text.
        local_results: The types of results on one device.
        named: How JAX has each argument and then each result.
        fillings: How uneven ones of them are handed over.
        devices: The device of each partition.
        callbacks: The Python functions that the module calls.
    """
    inside = [one if filled is None else filled.inside for one, filled in zip(named, fillings, strict=True)]
    mesh = inside[0].mesh if inside else None
    if mesh is None or any(one.mesh != mesh or one.spec.unreduced for one in inside):
        return None
    if list(mesh.devices.flat) != list(devices):
        return None
    count = len(inside) - len(local_results)
    types = [(type.dims, np.dtype(numpy_dtype(type.dtype))) for type in local_results]
    call = local_call(module, types, callbacks)
    specs = [one.spec for one in inside]

    def function(*arrays: Any) -> tuple[Any, ...]:
        fed = [a if filled is None else filled.fill(a) for a, filled in zip(arrays, fillings[:count], strict=True)]
        fed = [laid_out(array, one) for array, one in zip(fed, inside[:count], strict=True)]
        mapped: Any = jax.shard_map(
            lambda *shards: tuple(call(*shards)),
            mesh=mesh_here(mesh),
            in_specs=tuple(specs[:count]),
            out_specs=tuple(specs[count:]),
            check_vma=False,
        )
        results = zip(mapped(*fed), fillings[count:], inside[count:], strict=True)
        return tuple(
            in_place(result, one) if filled is None else filled.cut_array(result) for result, filled, one in results
        )

    return function
