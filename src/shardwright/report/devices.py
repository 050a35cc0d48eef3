"""The devices of a mesh, in a summary and as people read them."""

from __future__ import annotations

from typing import Any

from shardwright.mesh import Mesh
from shardwright.words import counted

__all__ = ["describe_mesh", "mesh_line"]

_NAMED = 16


def describe_mesh(mesh: Mesh) -> dict[str, Any]:
    """Sizes by axis, the number of devices, and their ids where they are not in order."""
    ids = {"device_ids": list(mesh.device_ids)} if mesh.device_ids is not None else {}
    return {"axes": mesh.sizes, "devices": mesh.size, **ids}


def mesh_line(described: dict[str, Any]) -> str:
    """What `describe_mesh` said, on one line.

    >>> mesh_line(describe_mesh(Mesh(x=2, y=2, device_ids=[3, 1, 2, 0])))
    'mesh x=2 × y=2 (4 devices, in the order 3, 1, 2, 0)'
    """
    axes = " × ".join(f"{axis}={size}" for axis, size in described["axes"].items())
    ids = described.get("device_ids", [])
    if not axes:
        return f"device {ids[0]} alone" if ids else "one device"
    listed = ", ".join(map(str, ids[:_NAMED])) + (", …" if len(ids) > _NAMED else "")
    order = f", in the order {listed}" if ids else ""
    return f"mesh {axes} ({counted(described['devices'], 'device', ',')}{order})"
