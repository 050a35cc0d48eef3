"""Device meshes: grids of devices with named axes.

    >>> mesh = Mesh(data=2, model=4)
    >>> mesh.size, mesh.axis("model")
    (8, AxisRef(name='model', pre=1, size=4))

Source: the `sdy` dialect's MeshAttr.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from shardwright.axes import Axes, AxisRef, merge_axes
from shardwright.errors import ShardingError
from shardwright.memo import once

__all__ = ["MOST_DEVICES", "MOST_LISTED", "MOST_PARTITIONS", "Mesh"]

MOST_DEVICES = 10**18 - 1
"""Devices of the largest mesh: C++ counts them in 64 bits, and with sixteen times as many this overflows."""

MOST_LISTED = 1 << 20
"""Devices that are gone through one by one, where that cannot be avoided."""

MOST_PARTITIONS = (1 << 31) - 1
"""Devices of a per-device program."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A grid of devices with named axes.

    `Mesh(data=2, model=4)`, or `Mesh([("data", 2), ("model", 4)], device_ids=…, name=…)`. Meshes are compared by
    value; the hash is computed once.

    Attributes:
        axes: `(name, size)` pairs, major to minor. None of them for a mesh of one device.
        device_ids: Device at each grid position, row-major; `None` means 0, 1, 2, ….
        name: The symbol under which modules refer to it.
        manual: Inside a manual computation the axes along which it is a program for one device, sorted: values differ
            along them, though no sharding says so, and nothing can be shared out or brought together there.
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None
    name: str
    manual: tuple[str, ...]

    def __init__(
        self,
        axes: Iterable[tuple[str, int]] | Mapping[str, int] = (),
        *,
        device_ids: Sequence[int] | None = None,
        name: str = "mesh",
        **named: int,
    ) -> None:
        """Make a mesh from pairs, from a mapping, or from keywords.

        Raises:
            ShardingError: what are no pairs of a name and a size, a repeated axis, a size below 1, more devices than
                can be numbered, or device ids that are not a permutation.
        """
        pairs = tuple((axis, _whole(size)) for axis, size in (*_pairs(axes), *named.items()))
        names = [axis for axis, _ in pairs]
        for axis, size in pairs:
            if names.count(axis) > 1:
                raise ShardingError(f"mesh axis {axis!r} appears twice", remedy="give every axis its own name")
            if type(size) is not int or size < 1:
                raise ShardingError(f"mesh axis {axis!r} has size {size!r}", remedy="use a whole number from 1")
        ids = None if device_ids is None else tuple(map(_whole, device_ids))
        total = math.prod(size for _, size in pairs)
        if total > MOST_DEVICES:
            raise ShardingError(
                f"a mesh has {total} devices",
                cause=f"more than {MOST_DEVICES} cannot be numbered",
                remedy="give its axes the sizes that they have",
            )
        if ids is not None and pairs:
            if len(ids) != total or {id for id in ids if type(id) is int} != set(range(total)):
                raise ShardingError(
                    f"device ids {list(ids)[:8]} do not name each of the {total} devices of the mesh once",
                    remedy=f"list every id from 0 to {total - 1} once, or leave them out",
                )
            ids = None if ids == tuple(range(total)) else ids
        object.__setattr__(self, "axes", pairs)
        object.__setattr__(self, "device_ids", ids)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "manual", ())

    @once
    def _key(self) -> tuple[object, ...]:
        return (self.axes, self.device_ids, self.name, self.manual)

    @once
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        """Equal by axes, device order, name and manual axes."""
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    def __hash__(self) -> int:
        """Hash of what it was made of, computed once."""
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        """What it was made of: hashes are those of this process."""
        return {"axes": self.axes, "device_ids": self.device_ids, "name": self.name, "manual": self.manual}

    def __repr__(self) -> str:
        """`Mesh(data=2, model=4)`, with device ids where they are not in order, and with axes that are manual here."""
        inner = ", ".join(f"{axis}={size}" for axis, size in self.axes)
        ids = f", device_ids={list(self.device_ids)}" if self.device_ids is not None else ""
        manual = f", manual={list(self.manual)}" if self.manual else ""
        return f"Mesh({inner}{ids}{manual})"

    def inside(self, manual: Iterable[str]) -> Mesh:
        """The mesh as it is seen inside a computation that is manual along these axes too."""
        made = object.__new__(Mesh)  # what this one was checked for holds
        for field, value in {**self.__getstate__(), "manual": tuple(sorted({*self.manual, *manual}))}.items():
            object.__setattr__(made, field, value)
        return made

    @once
    def sizes(self) -> dict[str, int]:
        """Axis name → size."""
        return dict(self.axes)

    @once
    def order(self) -> dict[str, int]:
        """Axis name → position, 0 the major-most."""
        return {axis: position for position, (axis, _) in enumerate(self.axes)}

    @once
    def size(self) -> int:
        """Number of devices."""
        return math.prod(size for _, size in self.axes)

    @property
    def listed(self) -> int:
        """Number of devices, for what goes through them one by one.

        Raises:
            ShardingError: more than `MOST_LISTED`.
        """
        if self.size > MOST_LISTED:
            raise ShardingError(
                f"the {self.size} devices of {self!r} would have to be listed one by one",
                cause=f"lists are limited to {MOST_LISTED} devices",
                remedy="use a smaller mesh; propagation and reshards along whole axes need no list",
            )
        return self.size

    @property
    def partitions(self) -> int:
        """Number of devices, for programs that say it: XLA's `num_partitions` is a number of 32 bits.

        Raises:
            ShardingError: more than `MOST_PARTITIONS`.
        """
        if self.size > MOST_PARTITIONS:
            raise ShardingError(
                f"a program of {self.size} partitions cannot be written",
                op="sdy.mesh",
                cause=f"mhlo.num_partitions is a number of 32 bits, {MOST_PARTITIONS} at most",
                remedy="use a smaller mesh; propagation and the explicit stage take any",
            )
        return self.size

    @once
    def strides(self) -> dict[str, int]:
        """Axis name → how many grid positions lie between neighbours along it (row-major)."""
        strides: dict[str, int] = {}
        stride = 1
        for axis, size in reversed(self.axes):
            strides[axis] = stride
            stride *= size
        return strides

    @property
    def is_maximal(self) -> bool:
        """Whether this stands for one single device given by its id (`sdy.mesh @m = <[], device_ids=[3]>`)."""
        return not self.axes and self.device_ids is not None

    def axis(self, name: str, pre: int = 1, size: int | None = None) -> AxisRef:
        """The axis called `name`, or the part `(pre)size` of it.

        Raises:
            ShardingError: no such axis, or a part that does not divide it.
        """
        full = self.sizes.get(name)
        if full is None:
            known = ", ".join(repr(axis) for axis in self.sizes) or "none"
            raise ShardingError(f"unknown mesh axis {name!r}", cause=f"the mesh has the axes {known}")
        if size is None:
            pre, size = 1, full
        if pre < 1 or size < 1 or full % (pre * size):
            raise ShardingError(
                f"sub-axis {name!r}{AxisRef(name, pre, size).part} does not fit axis {name!r} of size {full}",
                remedy="pre-size times size must divide the size of the axis",
            )
        return AxisRef(name, pre, size)

    def is_full(self, axis: AxisRef) -> bool:
        """Whether `axis` is a whole axis of this mesh."""
        return axis.pre == 1 and axis.size == self.sizes[axis.name]

    def axis_text(self, axis: AxisRef, name: str = "") -> str:
        """`x`, or `x:(1)2` for a part of it; `name` is the axis' name as a notation spells it."""
        return (name or axis.name) + ("" if self.is_full(axis) else axis.part)

    def sort_key(self, axis: AxisRef) -> tuple[int, int]:
        """Key that sorts axes in mesh order, major parts first."""
        return (self.order[axis.name], axis.pre)

    def in_order(self, axes: Iterable[AxisRef]) -> Axes:
        """`axes` sorted in mesh order, neighbouring parts merged."""
        return merge_axes(tuple(sorted(axes, key=self.sort_key)))

    def coordinates(self, position: int) -> dict[str, int]:
        """Axis name → coordinate of the grid position `position` (row-major, the last axis fastest)."""
        return {axis: (position // self.strides[axis]) % size for axis, size in self.axes}

    def index(self, axes: Axes, position: int) -> int:
        """Which part of a dimension sharded over `axes` the device at `position` holds, 0 the first."""
        index = 0
        for axis in axes:
            stride, modulus = self.digit(axis)
            index = index * modulus + (position // stride) % modulus
        return index

    def digit(self, axis: AxisRef) -> tuple[int, int]:
        """`(stride, size)`: a device's coordinate along `axis` is `position // stride % size`."""
        return self.strides[axis.name] * (self.sizes[axis.name] // axis.end), axis.size

    def device_id(self, position: int) -> int:
        """The device at grid position `position`."""
        return position if self.device_ids is None else self.device_ids[position]

    def positions_of(self, other: Mesh) -> tuple[int, ...]:
        """For each position of `other`, a mesh of the same devices, where the device there sits in this one.

        >>> Mesh(x=2).positions_of(Mesh([("x", 2)], device_ids=[1, 0]))
        (1, 0)
        """
        if self.device_ids == other.device_ids:
            return tuple(range(other.listed))
        here = {self.device_id(position): position for position in range(self.listed)}
        return tuple(here[other.device_id(position)] for position in range(other.listed))


def _pairs(axes: Any) -> Sequence[tuple[str, int]]:
    """Names and sizes of axes as they were given.

    Raises:
        ShardingError: they are something else.
    """
    try:
        pairs = [(axis, size) for axis, size in (axes.items() if isinstance(axes, Mapping) else axes)]
    except (TypeError, ValueError):
        pairs = [(None, 0)]
    if all(isinstance(axis, str) for axis, _ in pairs):
        return pairs
    raise ShardingError(
        f"not the axes of a mesh: {axes!r}"[:200],
        cause="an axis has a name and a size",
        remedy='give Mesh(data=2, model=4), or pairs: Mesh([("data", 2), ("model", 4)])',
    )


def _whole(number: Any) -> Any:
    """A whole number of any type, numpy's too, as `int`; truth values and all else as they are, to be refused."""
    try:
        return number if isinstance(number, bool) else index(number)
    except TypeError:
        return number
