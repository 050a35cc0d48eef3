"""What a step of a reshard costs.

>>> from shardwright.mesh import Mesh
>>> mesh = Mesh(x=2, y=4)
>>> before = TensorSharding.of(mesh, [["x", "y"], []])
>>> bytes_sent(AllToAll(((((mesh.axis("y"),)), 0, 1),)), before, local_bytes=1024)
768.0
"""

from __future__ import annotations

import math
from functools import singledispatch

from shardwright.cost.collectives import (
    all_gather_bytes,
    all_reduce_bytes,
    all_slice_bytes,
    all_to_all_bytes,
    collective_permute_bytes,
    reduce_scatter_bytes,
)
from shardwright.mesh import axes_size
from shardwright.sharding import TensorSharding
from shardwright.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
    Step,
    ToUnreduced,
    same_placement,
)

__all__ = ["bytes_sent"]


@singledispatch
def bytes_sent(step: Step, before: TensorSharding, local_bytes: float) -> float:
    """Bytes each device sends in a step.

    Arguments:
        step: What is done.
        before: How the tensor lies before it.
        local_bytes: What each device holds of it then.
    """
    raise TypeError(f"no price of {step!r}")


@bytes_sent.register
def _(step: AllSlice, before: TensorSharding, local_bytes: float) -> float:
    return all_slice_bytes()


@bytes_sent.register
def _(step: AllGather, before: TensorSharding, local_bytes: float) -> float:
    devices = math.prod(map(axes_size, step.axes))
    return all_gather_bytes(local_bytes * devices, devices)


@bytes_sent.register
def _(step: AllToAll, before: TensorSharding, local_bytes: float) -> float:
    return all_to_all_bytes(local_bytes, math.prod(axes_size(axes) for axes, _, _ in step.moves))


@bytes_sent.register
def _(step: CollectivePermute, before: TensorSharding, local_bytes: float) -> float:
    """All it holds, or nothing where every device already holds what it shall."""
    return 0.0 if same_placement(before, step.target) else collective_permute_bytes(local_bytes)


@bytes_sent.register
def _(step: AllReduce, before: TensorSharding, local_bytes: float) -> float:
    return all_reduce_bytes(local_bytes, axes_size(step.axes))


@bytes_sent.register
def _(step: ReduceScatter, before: TensorSharding, local_bytes: float) -> float:
    return reduce_scatter_bytes(local_bytes, math.prod(map(axes_size, step.axes)))


@bytes_sent.register
def _(step: ToUnreduced, before: TensorSharding, local_bytes: float) -> float:
    return 0.0
