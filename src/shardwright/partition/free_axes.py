"""Manual computations that leave axes free: their bodies are programs of their own, split along these.

Inside, a mesh has its manual axes set apart (`Mesh.manual`), and layouts are over the others. Collectives that the body
holds are over device ids. They work on shards where the devices of each group differ along manual axes alone: these
have the same part of every value. Any other op that knows of devices is computed on whole values.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shardwright.boundary import without_manual_axes
from shardwright.ir.graph import Graph, Op
from shardwright.ir.opaque import dense_array
from shardwright.ir.ops import MANUAL
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.partition.bodies import is_program
from shardwright.partition.localize.renumber import group_axes, over_partitions

__all__ = ["is_split_inside", "stays_within", "with_body_arguments"]


def is_split_inside(graph: Graph, op: Op) -> bool:
    """Whether the body of a manual computation is to be split: along axes that it leaves free, or by another one."""
    boundary = op.signature.boundary
    if boundary.free_axes:
        return True
    for inner in op.regions[0].walk():
        if inner.name == MANUAL:
            return True
        for value in inner.results:
            sharding = graph.shardings[value]
            if sharding is not None and not {axis.name for axis in sharding.used_axes} <= {*boundary.manual_axes}:
                return True
    return False


def with_body_arguments(graph: Graph) -> Graph:
    """An explicit program whose split bodies say how their arguments lie, for which its text has no place."""
    shardings = list(graph.shardings)
    for op in graph.walk():
        if op.name != MANUAL or not is_program(graph, op):
            continue
        boundary, arguments = op.signature.boundary, op.regions[0].arguments
        for value, layout in zip(arguments, boundary.in_shardings or (), strict=True):
            shardings[value] = shardings[value] or without_manual_axes(layout, boundary.manual_axes)
    return graph if shardings == graph.shardings else replace(graph, shardings=shardings)


def stays_within(signature: Signature, graph: Graph, mesh: Mesh) -> bool:
    """Whether the devices of each group of a collective differ along the manual axes of `mesh` alone."""
    if not over_partitions(signature):
        return False
    if text := signature.text("source_target_pairs"):
        return _differ_along(dense_array(text), mesh)
    text = signature.text("replica_groups") or ""
    if text.startswith(("dense", "#opaque")):
        groups = dense_array(text)
        return bool(groups.size) and _differ_along(groups, mesh)
    axes = group_axes(text, graph)
    return axes is not None and {axis.name for axis in axes} <= {*mesh.manual}


def _differ_along(groups: np.ndarray[tuple[int, ...], np.dtype[np.int64]], mesh: Mesh) -> bool:
    """Whether the devices of each row have the same place along all axes that are not manual."""
    positions = np.arange(mesh.listed)
    if mesh.device_ids is not None:
        positions[np.array(mesh.device_ids)] = np.arange(mesh.listed)
    if groups.min() < 0 or groups.max() >= mesh.listed:
        return False
    at = positions[groups]
    for name, size in mesh.axes:
        place = at // mesh.strides[name] % size
        if name not in mesh.manual and (place != place[:, :1]).any():
            return False
    return True
