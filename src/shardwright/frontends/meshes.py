"""Meshes as Python users hold them: our own, axis sizes by name, the text of `--mesh`, or JAX's.

>>> mesh_of({"data": 2, "model": 4}), mesh_of("data=2,model=4")
(Mesh(data=2, model=4), Mesh(data=2, model=4))
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.words import kind_of

__all__ = ["devices_of", "mesh_of"]

_REMEDY = "write it as data=2,model=4"


def mesh_of(mesh: Any, anywhere: bool = False) -> Mesh:
    """Our mesh of what a user gives as one.

    Arguments:
        mesh: A `Mesh`, axis name → size, `"data=2,model=4"`, or a `jax.sharding.Mesh` or `AbstractMesh`. The devices
            of a JAX mesh are kept in its order.
        anywhere: Whether a JAX mesh may be of other devices than the first ones; `devices_of` has them.

    Raises:
        ShardingError: anything else, or a JAX mesh of other devices than the first ones.
    """
    if isinstance(mesh, Mesh):
        return mesh
    if isinstance(mesh, str):
        return _parsed(mesh)
    if isinstance(mesh, Mapping):
        return Mesh(mesh)
    if type(mesh).__module__.partition(".")[0] == "jax" and hasattr(mesh, "axis_names"):
        return Mesh(mesh.shape, device_ids=_device_ids(mesh, anywhere))
    raise ShardingError(
        f"not a mesh: {mesh!r}"[:200],
        cause=f"it is {kind_of(mesh)}",
        remedy="give sw.Mesh(data=2, model=4), a dict of axis sizes, or a JAX mesh",
    )


def _parsed(text: str) -> Mesh:
    """The mesh written as `data=2,model=4`, major axis first.

    Raises:
        ShardingError: anything else, a repeated axis, a size below 1.
    """
    axes: list[tuple[str, int]] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([^\s:+,=()]+)\s*=\s*(\d{1,18})\s*", part, re.ASCII)
        if match is None:
            raise ShardingError(f"not a mesh: {text!r}", cause=f"{part!r} is not AXIS=SIZE", remedy=_REMEDY)
        if match[1] in ("-", "."):
            raise ShardingError(
                f"a mesh axis cannot be called {match[1]!r}",
                cause="it stands for a dimension that is not split",
                remedy=_REMEDY,
            )
        axes.append((match[1], int(match[2])))
    return Mesh(axes)


def devices_of(mesh: Any) -> tuple[Any, ...]:
    """The devices that the numbers in `mesh_of(mesh, anywhere=True)` are of; none where the mesh names none."""
    if type(mesh).__module__.partition(".")[0] != "jax":
        return ()
    import jax  # loaded already: the mesh is JAX's

    is_concrete = isinstance(mesh, jax.sharding.Mesh)
    return tuple(sorted(mesh.devices.flat, key=lambda device: device.id)) if is_concrete else ()


def _device_ids(mesh: Any, anywhere: bool) -> list[int] | None:
    """The numbers of the devices of a JAX mesh, row-major; `None` for an abstract mesh, which has none."""
    import jax  # loaded already: the mesh is JAX's

    if not isinstance(mesh, jax.sharding.Mesh):
        return None
    ids = [device.id for device in mesh.devices.flat]
    first = sorted(device.id for device in jax.devices(mesh.devices.flat[0].platform))[: len(ids)]
    if anywhere:
        first = sorted(ids)
    if sorted(ids) != first:
        raise ShardingError(
            f"the JAX mesh is on the devices {', '.join(map(str, ids[:8]))}",
            cause=f"a program is planned for the first {len(ids)} devices",
            remedy="make the mesh on jax.devices()[:N]",
        )
    place = {number: position for position, number in enumerate(first)}
    return [place[number] for number in ids]
