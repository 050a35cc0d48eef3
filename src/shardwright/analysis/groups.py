"""Which devices take part in a collective of a per-device program.

`replica_groups` comes in two forms: a dense table of device ids, a group a row, and mesh axes:

    #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>]>

where devices that differ only in their coordinates along those axes form a group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shardwright.axes import Axes, axes_size
from shardwright.errors import ShardingError
from shardwright.ir.opaque import dense_array
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, SYMBOL, symbol_name, unquoted

__all__ = [
    "Devices",
    "Groups",
    "Table",
    "axes_between",
    "groups_over",
    "replica_groups",
    "source_target_pairs",
]

Devices = npt.NDArray[np.int64]
"""One number per device (or per member of a group)."""

Table = tuple[tuple[int, ...], ...]
"""Rows of device ids."""

_MESH = re.compile(rf"mesh = ({SYMBOL})")
_AXIS = re.compile(rf"axis_ref<name = ({STRING})(?:, sub_axis_info = \((\d+)\)(\d+))?>")


@dataclass(frozen=True)
class Groups:
    """Groups of devices that communicate with one another.

    Attributes:
        axes: The mesh axes along which the members of a group differ, or `None` where ids are listed.
        mesh: The mesh of `axes`, or `None`.
        table: The ids listed, a group a row; empty where `axes` are given.
    """

    axes: Axes | None
    mesh: Mesh | None
    table: Table = ()

    @cached_property
    def size(self) -> int:
        """Devices in one group, of the largest where they differ."""
        if self.axes is not None:
            return axes_size(self.axes)
        return max((len(row) for row in self.table), default=1)

    @cached_property
    def rows(self) -> tuple[Devices, ...]:
        """The device ids of every group."""
        if self.axes is None or self.mesh is None:
            return tuple(np.array(row, dtype=np.int64) for row in self.table)
        return _rows(self.axes, self.mesh)

    def along(self, mesh: Mesh) -> tuple[str, ...]:
        """The names of the axes along which members of a group differ; where ids are listed, those of `mesh`."""
        if self.axes is None:
            return axes_between(self.table, mesh)
        return tuple(dict.fromkeys(axis.name for axis in self.axes))


def replica_groups(signature: Signature, meshes: Mapping[str, Mesh], devices: int) -> Groups:
    """The groups of a StableHLO collective; none listed means one group of all `devices`.

    Raises:
        ShardingError: groups over a mesh or an axis that the module does not have.
    """
    text = signature.text("replica_groups") or ""
    if "replica_group_mesh_axes" in text:
        return groups_over(text, meshes, signature.name)
    table = tuple(tuple(device for device in row if device >= 0) for row in _dense(text))
    return Groups(None, None, table if any(table) else (tuple(range(devices)),))


def source_target_pairs(signature: Signature) -> Table:
    """The `(source, target)` device ids of a `collective_permute`."""
    return _dense(signature.text("source_target_pairs") or "")


def axes_between(rows: Table, mesh: Mesh) -> tuple[str, ...]:
    """The names of the axes of a mesh along which devices of a row differ from its first.

    >>> axes_between(((0, 4), (1, 5)), Mesh(x=2, y=4)), axes_between(((0, 5),), Mesh(x=2, y=4))
    (('x',), ('x', 'y'))
    """
    members = np.array([device for row in rows for device in row], dtype=np.int64)
    first = np.array([row[0] for row in rows for _ in row], dtype=np.int64)
    if not mesh.axes or members.size == 0 or members.max() >= mesh.size:
        return ()
    if mesh.device_ids is not None:
        order = np.argsort(np.array(mesh.device_ids))
        members, first = order[members], order[first]
    digits = ((name, mesh.digit(mesh.axis(name))) for name in mesh.sizes)
    return tuple(
        [name for name, (stride, size) in digits if (members // stride % size != first // stride % size).any()]
    )


def _dense(text: str) -> Table:
    if not text:
        return ()
    array = np.atleast_2d(dense_array(text))
    return tuple(tuple(int(device) for device in row) for row in array)


def groups_over(text: str, meshes: Mapping[str, Mesh], op: str) -> Groups:
    """The groups that an attribute gives by mesh axes, to the collective called `op`.

    Raises:
        ShardingError: a mesh or an axis that there is not.
    """
    match = _MESH.search(text)
    mesh = meshes.get(symbol_name(match[1])) if match else None
    if mesh is None:
        raise ShardingError(
            "replica groups over a mesh that the module does not define",
            op=op,
            cause=text,
            remedy="keep the sdy.mesh in the module",
        )
    axes = tuple(
        mesh.axis(unquoted(name), int(pre), int(size)) if pre else mesh.axis(unquoted(name))
        for name, pre, size in _AXIS.findall(text)
    )
    return Groups(axes, mesh)


def _rows(axes: Axes, mesh: Mesh) -> tuple[Devices, ...]:
    """Devices sorted by their coordinates outside `axes`, then inside, cut into groups."""
    positions = np.arange(mesh.listed)
    inside = np.zeros(mesh.size, dtype=np.int64)
    outside = positions.copy()
    for axis in axes:
        stride, modulus = mesh.digit(axis)
        digit = positions // stride % modulus
        inside = inside * modulus + digit
        outside -= digit * stride
    ids = positions if mesh.device_ids is None else np.array(mesh.device_ids)
    order = np.lexsort((inside, outside))
    return tuple(ids[order].reshape(-1, axes_size(axes)))
