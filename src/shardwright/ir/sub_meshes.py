"""Sub-meshes: meshes of which a part of the devices alone is to hold what lies on them.

A program is one for all devices, and `sdy` has no mesh of fewer, so a sub-mesh stands in a module as a mesh of all
devices with an attribute that names those that were meant. The others hold the same as these along some of its axes:

    sdy.mesh @stage_1 = <["a"=2, "b"=2]> {shardwright.devices = array<i64: 2, 3>}
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from shardwright.errors import ShardingError
from shardwright.ir.graph import Graph
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.strides import mesh_names

__all__ = ["DEVICES", "devices_of_text", "on_sub_meshes", "plain_first", "print_devices", "sub_meshes"]

DEVICES = "shardwright.devices"
"""The attribute of an `sdy.mesh`."""

_ARRAY = re.compile(r"array<i64: (\d{1,18}(?:, \d{1,18})*)>")


def print_devices(devices: Iterable[int]) -> str:
    """`array<i64: 2, 3>`."""
    return f"array<i64: {', '.join(map(str, devices))}>"


def devices_of_text(text: str, mesh: Mesh) -> tuple[int, ...]:
    """The devices that the attribute's text names, some of those of `mesh`.

    Raises:
        ShardingError: something else, or devices that the mesh has not.
    """
    match = _ARRAY.fullmatch(text)
    devices = tuple(map(int, match[1].split(", "))) if match else ()
    if not devices or len(set(devices)) < len(devices) or max(devices) >= mesh.size:
        raise ShardingError(
            f"the sub-mesh @{mesh.name} has {DEVICES} = {text[:80]}",
            op="sdy.mesh",
            cause=f"it names some of the devices from 0 to {mesh.size - 1}, each once",
            remedy=f"write {DEVICES} = {print_devices(range(max(1, mesh.size // 2)))}, or leave it out",
        )
    return devices


def sub_meshes(graph: Graph) -> dict[Mesh, tuple[int, ...]]:
    """The sub-meshes of a program, each with the devices that were meant.

    Raises:
        ShardingError: an attribute that does not name devices of its mesh.
    """
    return {
        mesh: devices_of_text(graph.mesh_attributes[symbol][DEVICES], mesh)
        for symbol, mesh in graph.meshes.items()
        if DEVICES in graph.mesh_attributes.get(symbol, {})
    }


def plain_first(graph: Graph) -> Graph:
    """A program with its sub-meshes behind all other meshes, among which is one like each of them of all devices."""
    parts = sub_meshes(graph)
    if not parts:
        return graph
    like = {(mesh.axes, mesh.device_ids): mesh for mesh in graph.meshes.values() if mesh not in parts}
    free = (name for name in mesh_names("mesh") if name not in graph.meshes)
    plain: dict[str, Mesh] = {}
    for mesh in graph.meshes.values():
        form = (mesh.axes, mesh.device_ids)
        if form not in like:
            like[form] = Mesh(mesh.axes, device_ids=mesh.device_ids, name=next(free))
        whole = like[form] if mesh in parts else mesh
        plain[whole.name] = whole
    return replace(graph, meshes={**plain, **{mesh.name: mesh for mesh in parts}})


def on_sub_meshes(made: Graph, stated: Graph) -> None:
    """Name the sub-meshes again in `made`, a propagated graph, where `stated`, which it was made from, has them."""
    meshes = sub_meshes(stated)
    if not meshes:
        return

    def restored(sharding: TensorSharding | None, before: TensorSharding | None) -> TensorSharding | None:
        if sharding is None or before is None or before.mesh not in meshes:
            return sharding
        is_alike = (sharding.mesh.axes, sharding.mesh.device_ids) == (before.mesh.axes, before.mesh.device_ids)
        return replace(sharding, mesh=before.mesh) if is_alike else sharding

    for value, before in enumerate(stated.shardings):
        made.shardings[value] = restored(made.shardings[value], before)
    results = zip(made.main.result_shardings, stated.main.result_shardings, strict=True)
    made.main.result_shardings = [restored(sharding, before) for sharding, before in results]
