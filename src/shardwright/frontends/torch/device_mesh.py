"""The processes of `torch.distributed` as the mesh of a plan."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as distributed
from torch.distributed.device_mesh import DeviceMesh

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.words import counted, kind_of

__all__ = ["check_device_mesh", "device_mesh_of"]

_JOINED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What `torchrun` tells each process, by which torch joins them when it makes a mesh."""


def device_mesh_of(mesh: Mesh, device_type: str) -> DeviceMesh:
    """A `DeviceMesh` with the axes of `mesh`, its devices being the ranks of all processes.

    Raises:
        ShardingError: processes that are not joined, not as many as the mesh has devices, or not in order.
    """
    if not distributed.is_available() or not (
        distributed.is_initialized() or all(variable in os.environ for variable in _JOINED)
    ):
        raise ShardingError(
            f"no processes to lay a module out over {mesh!r}",
            cause="torch.distributed has joined none, and torchrun has started none",
            remedy=f"start one for each device: torchrun --nproc-per-node {mesh.size} train.py",
        )
    processes = distributed.get_world_size() if distributed.is_initialized() else int(os.environ["WORLD_SIZE"])
    if processes != mesh.size:
        raise ShardingError(
            f"{counted(processes, 'process')} for the {mesh.size} devices of {mesh!r}",
            cause="each device of the plan's mesh is one process",
            remedy=f"start {mesh.size}, or give a mesh of other processes: sw.parallelize(module, plan, device_mesh)",
        )
    ranks = [mesh.device_id(position) for position in range(mesh.listed)]
    grid = torch.tensor(ranks, dtype=torch.int).view([size for _, size in mesh.axes])
    _check_order(grid, mesh)
    return DeviceMesh(device_type, grid, mesh_dim_names=tuple(mesh.sizes))


def check_device_mesh(given: Any, mesh: Mesh) -> None:
    """Whether a `DeviceMesh` has the axes of `mesh`, in order; which processes it is of matters little.

    Raises:
        ShardingError: something else, other axes, or processes that are not in order.
    """
    remedy = f"give a DeviceMesh with the axes of the plan, {dict(mesh.sizes)}, or none"
    if not isinstance(given, DeviceMesh):
        raise ShardingError(f"not a device mesh: {given!r:.100}", cause=f"it is {kind_of(given)}", remedy=remedy)
    axes = tuple(zip(given.mesh_dim_names or (), given.shape, strict=False))
    if len(axes) != given.ndim or axes != mesh.axes:
        raise ShardingError(
            f"the plan is for {mesh!r}",
            cause=f"the device mesh has {dict(axes) or 'axes without names'}",
            remedy=remedy,
        )
    _check_order(given.mesh, mesh)


def _check_order(grid: Any, mesh: Mesh) -> None:
    for dim, (axis, _) in enumerate(mesh.axes):
        if bool((grid.diff(dim=dim) < 0).any()):
            raise ShardingError(
                f"the processes {grid.tolist()} do not ascend along {axis!r}",
                cause="torch numbers those of a group by their ranks, and DTensor splits tensors by the mesh: it would "
                "put the parts together in another order",
                remedy="let ranks ascend along every axis: leave out device_ids, or transpose axes with them",
            )
