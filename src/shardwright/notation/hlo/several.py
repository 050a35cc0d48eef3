"""Several meshes for the `mhlo.sharding`s of a module that no one mesh serves: devices in several orders, named meshes.

Tiles whose devices count by the axes of one mesh share it; the others get meshes of their own, over the same devices.

    >>> from shardwright.notation.hlo.text import parse_hlo
    >>> several_meshes([parse_hlo("{devices=[4,2]<=[8]}"), parse_hlo("{devices=[8]7,6,5,4,3,2,1,0}")], ["m", "n"])
    (Mesh(a=4, b=2), Mesh(a=8, device_ids=[7, 6, 5, 4, 3, 2, 1, 0]))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.hlo.mesh import Placed, mesh_of_tiles, placed
from shardwright.notation.hlo.model import HloSharding
from shardwright.notation.hlo.tiles import MAX_EXPANDED, expand, order_size

__all__ = ["MOST_MESHES", "has_manual", "placed_on", "several_meshes"]

MOST_MESHES = 16
"""Most meshes of a module."""


def has_manual(hlo: HloSharding) -> bool:
    """Whether a sharding, in canonical form, is manual over some devices."""
    named = hlo.named is not None and (hlo.named.whole == "manual" or bool(hlo.named.manual))
    return hlo.kind == "manual" or "manual" in hlo.subgroups or named


def several_meshes(
    shardings: Sequence[HloSharding], names: Iterable[str], own: Mesh | None = None
) -> tuple[Mesh, ...] | None:
    """Meshes over whose axes each of `shardings` can be said, over one of them; `None` where many would be needed.

    Arguments:
        shardings: In canonical form, no tuples, for one number of devices.
        names: What the meshes are called.
        own: The mesh that the module has already, which comes first.

    Raises:
        ShardingError: more devices in lists than are looked at one by one.
    """
    meshes = [] if own is None else [own]
    for form in [hlo.named for hlo in shardings if hlo.named is not None and hlo.named.axes]:
        if all((mesh.axes, mesh.device_ids) != (form.axes, form.mesh().device_ids) for mesh in meshes):
            meshes.append(form.mesh())
    tiled = dict.fromkeys(replace(hlo, group=None, metadata="") for hlo in shardings if hlo.kind == "tiled")
    groups: list[tuple[list[HloSharding], Mesh]] = []
    for hlo in tiled:
        if _is_served(hlo, meshes):
            continue
        if len(meshes) + len(groups) > MOST_MESHES:
            return None
        for number, (others, mesh) in enumerate(groups):
            common = mesh if _is_served(hlo, [mesh]) else mesh_of_tiles([*others, hlo], mesh.size)
            if common is not None:
                groups[number] = ([*others, hlo], common)
                break
        else:
            alone = _like(hlo, groups) or mesh_of_tiles([hlo], order_size(hlo.order))
            if alone is None:
                return None
            groups.append(([hlo], alone))
    every = (*meshes[own is not None :], *[mesh for _, mesh in groups])
    called = tuple(
        Mesh(mesh.axes, device_ids=mesh.device_ids, name=name) for name, mesh in zip(names, every, strict=False)
    )
    return called if own is None else (own, *called)


def _like(hlo: HloSharding, groups: Sequence[tuple[Sequence[HloSharding], Mesh]]) -> Mesh | None:
    """A mesh on which `hlo` has the axes that a sharding of the same tiles has on another, whose devices lie otherwise.

    Then a value that moves from one to the other goes from device to device as it is.
    """
    for others, mesh in groups:
        for other in others:
            if (other.tile, other.subgroups) == (hlo.tile, hlo.subgroups) and order_size(hlo.order) <= MAX_EXPANDED:
                there = np.empty(mesh.size, dtype=np.int64)
                there[expand(other.order)] = expand(hlo.order)
                ids = [int(there[mesh.device_id(position)]) for position in range(mesh.size)]
                return Mesh(mesh.axes, device_ids=ids, name=mesh.name)
    return None


def placed_on(hlo: HloSharding, rank: int, meshes: Sequence[Mesh]) -> Placed:
    """A sharding over the axes of the mesh that it names, else of the first of `meshes` that serves it; see `placed`.

    Raises:
        ShardingError: none does; as the last one has it.
    """
    own = hlo.named.mesh() if hlo.named is not None and hlo.named.axes else None
    for mesh in meshes[:-1]:
        if own is None or (own.axes, own.device_ids) == (mesh.axes, mesh.device_ids):
            with suppress(ShardingError):
                return placed(hlo, rank, mesh)
    return placed(hlo, rank, meshes[-1])


def _is_served(hlo: HloSharding, meshes: Sequence[Mesh]) -> bool:
    if not meshes:
        return False
    try:
        placed_on(hlo, len(hlo.data_tile), meshes)
    except ShardingError:
        return False
    return True
