"""The devices of a module: all of its meshes are made of the same ones."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh

__all__ = ["check_meshes"]


def check_meshes(meshes: Mapping[str, Mesh]) -> None:
    """See that all meshes, those without axes left aside, have one size.

    Raises:
        ShardingError: they have not.
    """
    sizes = {mesh.size: mesh for mesh in meshes.values() if mesh.axes}
    if len(sizes) > 1:
        listed = ", ".join(f"@{mesh.name} of {size}" for size, mesh in sizes.items())
        raise ShardingError(
            "the module has meshes of different size",
            op="sdy.mesh",
            cause=f"devices: {listed}",
            remedy="use one set of devices for the whole module",
        )
