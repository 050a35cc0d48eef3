"""Our shardings as JAX's: `NamedSharding`s over the devices of this process.

JAX names whole axes only. Where a program uses parts of an axis, all its shardings are named over a finer mesh with
the same devices in the same order: `x=8` of which `x:(1)2` is used becomes `x:(1)2` and `x:(2)4`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from shardwright.axes import Axes, AxisRef
from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["MEMORY_KIND", "in_memory", "in_place", "laid_out", "mesh_devices", "mesh_here", "named_shardings"]

MEMORY_KIND = "mhlo.memory_kind"
"""The attribute of an argument or result that says in which memory of a device it is."""


def mesh_devices(mesh: Mesh, devices: Sequence[Any] | None = None) -> np.ndarray[Any, Any]:
    """The devices of this process in the shape of the mesh, the first ones unless `devices` says which.

    Raises:
        ShardingError: fewer devices than the mesh has.
    """
    here = list(jax.devices() if devices is None else devices)
    if len(here) < mesh.size:
        raise ShardingError(
            f"{mesh!r} has {counted(mesh.size, 'device')}, this process has {len(here)}",
            cause=f"JAX sees {', '.join(sorted({str(device.platform) for device in here})) or 'no'} devices",
            remedy=f'call jax.config.update("jax_num_cpu_devices", {mesh.size}) before all else, or use more hosts',
        )
    order = [here[mesh.device_id(position)] for position in range(mesh.size)]
    return np.array(order, dtype=object).reshape([size for _, size in mesh.axes])


def named_shardings(
    shardings: Sequence[TensorSharding], devices: Sequence[Any] | None = None
) -> list[jax.sharding.NamedSharding]:
    """The `NamedSharding` of each sharding; those on one mesh share one JAX mesh, as far as their parts of axes nest.

    Raises:
        ShardingError: fewer devices than the mesh has, or a tensor that is partial by another kind than sum.
    """
    groups: list[_Group] = []
    group_of: dict[TensorSharding, _Group] = {}
    for sharding in dict.fromkeys(shardings):
        group = next((group for group in groups if group.takes(sharding)), None)
        if group is None:
            group = _Group(sharding.mesh)
            groups.append(group)
        group.add(sharding)
        group_of[sharding] = group
    meshes = {group: _Named(group, devices) for group in groups}
    return [meshes[group_of[sharding]].name(sharding) for sharding in shardings]


def mesh_here(mesh: Any) -> Any:
    """The mesh as it is called where JAX traces: one of the same axes that is set there goes before ours."""
    here = jax.sharding.get_abstract_mesh()
    return here if not here.empty and here.shape_tuple == mesh.abstract_mesh.shape_tuple else mesh


def laid_out(value: Any, sharding: jax.sharding.NamedSharding) -> Any:
    """A value that JAX traces, to lie so: a constraint, or where shardings are a part of types another type."""
    mesh = mesh_here(sharding.mesh)
    named = jax.sharding.NamedSharding(mesh, sharding.spec)
    value = in_place(value, sharding)
    if jax.sharding.AxisType.Explicit in mesh.axis_types:
        return jax.sharding.reshard(value, named)
    return jax.lax.with_sharding_constraint(value, named)


def in_place(value: Any, sharding: jax.sharding.NamedSharding) -> Any:
    """A value that JAX traces, in the memory that a sharding names; itself where that is the devices' own."""
    if sharding.memory_kind in (None, _own_memory(sharding)):
        return value
    return jax.device_put(value, sharding)


def _own_memory(sharding: jax.sharding.NamedSharding) -> str:
    device: Any = next(iter(sharding.device_set))
    return str(device.default_memory().kind)


def in_memory(
    shardings: Sequence[jax.sharding.NamedSharding], attributes: Sequence[Mapping[str, str]]
) -> list[jax.sharding.NamedSharding]:
    """The shardings, each in the memory that the attributes (as MLIR text) of its argument or result say.

    Raises:
        ShardingError: the devices have no such memory.
    """
    kinds = [decode(row[MEMORY_KIND]) if MEMORY_KIND in row else None for row in attributes]
    return [_in_memory(sharding, kind) if kind else sharding for sharding, kind in zip(shardings, kinds, strict=True)]


def _in_memory(sharding: jax.sharding.NamedSharding, kind: str) -> jax.sharding.NamedSharding:
    try:
        return sharding.with_memory_kind(kind)
    except ValueError as error:
        raise ShardingError(
            f"the devices of this process have no memory {kind!r}",
            cause=str(error).split("\n", 1)[0],
            remedy=f"run it where there is such memory, or take {MEMORY_KIND} out of the program",
        ) from None


class _Group:
    """Shardings on one mesh whose parts of axes nest: each axis is cut wherever one of them begins or ends."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._cuts = {name: {1, size} for name, size in mesh.axes}

    def takes(self, sharding: TensorSharding) -> bool:
        """Whether a sharding is on the mesh, and its parts of axes nest with all others."""
        if sharding.mesh != self.mesh:
            return False
        return all(
            not high % low
            for name, cuts in _cuts_of(sharding).items()
            for low, high in itertools.pairwise(sorted(cuts | self._cuts[name]))
        )

    def add(self, sharding: TensorSharding) -> None:
        """Cut the axes for a sharding too."""
        for name, cuts in _cuts_of(sharding).items():
            self._cuts[name] |= cuts

    def parts(self, name: str) -> tuple[AxisRef, ...]:
        """What an axis is cut into, major to minor."""
        cuts = itertools.pairwise(sorted(self._cuts[name]))
        return tuple(AxisRef(name, low, high // low) for low, high in cuts) or (self.mesh.axis(name),)


def _cuts_of(sharding: TensorSharding) -> dict[str, set[int]]:
    cuts: dict[str, set[int]] = {}
    for axis in (*sharding.used_axes, *sharding.partial_axes):
        cuts.setdefault(axis.name, set()).update((axis.pre, axis.end))
    return cuts


class _Named:
    """A JAX mesh for shardings on one mesh of ours."""

    def __init__(self, group: _Group, devices: Sequence[Any] | None) -> None:
        mesh = group.mesh
        self.parts = {name: group.parts(name) for name in mesh.sizes}
        every = [part for parts in self.parts.values() for part in parts]
        array = mesh_devices(mesh, devices).reshape([part.size for part in every])
        self.names = {part: mesh.axis_text(part) for part in every}
        names = tuple(self.names[part] for part in every)
        self.mesh = jax.sharding.Mesh(array, names)
        # JAX lets arrays be unreduced along explicit axes only
        self.explicit = jax.sharding.Mesh(array, names, axis_types=(jax.sharding.AxisType.Explicit,) * len(names))

    def name(self, sharding: TensorSharding) -> jax.sharding.NamedSharding:
        entries = [self.named(dim.axes) or None for dim in sharding.dims]
        if not sharding.partial:
            return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*entries))
        if any(p.kind != "sum" for p in sharding.partial):
            raise ShardingError(
                f"{sharding!r} cannot be written as a JAX sharding",
                cause="JAX knows arrays that await a sum, and no other reduction",
                remedy="let the program reduce it",
            )
        unreduced = frozenset(self.named(sharding.partial_axes))
        return jax.sharding.NamedSharding(self.explicit, jax.sharding.PartitionSpec(*entries, unreduced=unreduced))

    def named(self, axes: Axes) -> tuple[str, ...]:
        return tuple(self.names[part] for axis in axes for part in self.parts[axis.name] if axis.contains(part))
