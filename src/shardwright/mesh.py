"""Device meshes, their axes and sub-axes, and the algebra of axis lists.

A mesh arranges devices in a grid with named axes. A *sub-axis* `"x":(pre)size` is what remains of axis `x` after
its `pre` major-most parts are taken, `size` wide: on `x=8`, `x:(1)2` is the major half, `x:(2)4` the minor four.

    >>> mesh = Mesh(data=2, model=4)
    >>> mesh.size, mesh.axis("model")
    (8, AxisRef(name='model', pre=1, size=4))

Source: the `sdy` dialect's MeshAttr, AxisRefAttr and SubAxisInfoAttr.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any, NamedTuple

from shardwright.errors import ShardingError

__all__ = [
    "MOST_LISTED",
    "MOST_PARTITIONS",
    "Axes",
    "AxisRef",
    "Mesh",
    "axes_size",
    "can_coexist",
    "common_prefix",
    "decompose",
    "is_prefix",
    "merge_axes",
    "overlaps_any",
    "subtract_axes",
    "truncate_by_divisor",
]

MOST_LISTED = 1 << 20
"""Devices that are gone through one by one, where that cannot be avoided."""

MOST_PARTITIONS = (1 << 31) - 1
"""Devices of a per-device program."""


class AxisRef(NamedTuple):
    """A mesh axis or a part of one: `size` wide, below `pre` of its major-most parts (1 for a whole axis).

    A tuple, because propagation compares axes more than it does anything else.
    """

    name: str
    pre: int
    size: int

    @property
    def end(self) -> int:
        """`pre * size`: the pre-size of whatever is just minor to this."""
        return self.pre * self.size

    @property
    def part(self) -> str:
        """What texts put behind the name of an axis for a part of it: `:(1)2`."""
        return f":({self.pre}){self.size}"

    def overlaps(self, other: AxisRef) -> bool:
        """Whether both use some of the same part of the same axis."""
        if self.name != other.name:
            return False
        return self == other or max(self.pre, other.pre) < min(self.end, other.end)  # equal: axes of size 1

    def contains(self, other: AxisRef) -> bool:
        """Whether `other` is a part of this (or equal)."""
        return self.name == other.name and other.pre % self.pre == 0 and self.end % other.end == 0

    def is_prefix_of(self, other: AxisRef) -> bool:
        """Whether this is a major part of `other` (or equal)."""
        return self.name == other.name and self.pre == other.pre and other.size % self.size == 0

    def joins(self, minor: AxisRef) -> bool:
        """Whether `minor` starts where this ends, so that the two are one bigger part."""
        return self.name == minor.name and self.end == minor.pre


Axes = tuple[AxisRef, ...]
"""A list of axes, major to minor."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A grid of devices with named axes.

    `Mesh(data=2, model=4)`, or `Mesh([("data", 2), ("model", 4)], device_ids=…, name=…)`. Meshes are compared by
    value; the hash is computed once.

    Attributes:
        axes: `(name, size)` pairs, major to minor. None of them for a mesh of one device.
        device_ids: Device at each grid position, row-major; `None` means 0, 1, 2, ….
        name: The symbol under which modules refer to it.
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None
    name: str

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
            ShardingError: what are no pairs of a name and a size, a repeated axis, a size below 1, or device ids that
                are not a permutation.
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

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (self.axes, self.device_ids, self.name)

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        """Equal by axes, device order and name."""
        return self is other or (isinstance(other, Mesh) and self._key == other._key)

    def __hash__(self) -> int:
        """Hash of axes, device order and name, computed once."""
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        """What it was made of: hashes are those of this process."""
        return {"axes": self.axes, "device_ids": self.device_ids, "name": self.name}

    def __repr__(self) -> str:
        """`Mesh(data=2, model=4)`, with device ids where they are not in order."""
        inner = ", ".join(f"{axis}={size}" for axis, size in self.axes)
        ids = f", device_ids={list(self.device_ids)}" if self.device_ids is not None else ""
        return f"Mesh({inner}{ids})"

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Axis name → size."""
        return dict(self.axes)

    @cached_property
    def order(self) -> dict[str, int]:
        """Axis name → position, 0 the major-most."""
        return {axis: position for position, (axis, _) in enumerate(self.axes)}

    @cached_property
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

    @cached_property
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


def axes_size(axes: Iterable[AxisRef]) -> int:
    """Product of the sizes of `axes`."""
    return math.prod(axis.size for axis in axes)


def merge_axes(axes: Axes) -> Axes:
    """Neighbouring parts of the same axis made one: `x:(1)2, x:(2)4` → `x:(1)8`."""
    merged: list[AxisRef] = []
    for axis in axes:
        if merged and merged[-1].joins(axis):
            last = merged.pop()
            axis = AxisRef(last.name, last.pre, last.size * axis.size)
        merged.append(axis)
    return tuple(merged)


def overlaps_any(axis: AxisRef, axes: Iterable[AxisRef]) -> bool:
    """Whether `axis` overlaps one of `axes`."""
    return any(axis.overlaps(other) for other in axes)


def can_coexist(left: AxisRef, right: AxisRef) -> bool:
    """Whether both can be written as parts of one common split of the axis.

    On `x=6`, `x:(1)2` and `x:(1)3` cannot: no list of sub-axes holds a boundary at 2 and at 3.
    """
    if left.name != right.name:
        return True
    bounds = sorted({left.pre, left.end, right.pre, right.end})
    return all(big % small == 0 for small, big in itertools.pairwise(bounds))


def is_prefix(prefix: Axes, axes: Axes) -> bool:
    """Whether `axes` begins with `prefix`, the last axis of which may be a major part of its counterpart."""
    return common_prefix(prefix, axes) == prefix


def common_prefix(left: Axes, right: Axes) -> Axes:
    """The longest list of major axes that both begin with (the last may be a part): `a,x` / `a,x:(1)2` → `a,x:(1)2`.

    Both lists must have neighbouring parts merged.
    """
    prefix: list[AxisRef] = []
    for one, other in zip(left, right, strict=False):
        if one == other:
            prefix.append(one)
            continue
        if one.name == other.name and one.pre == other.pre:
            shared = math.gcd(one.size, other.size)
            small = min(one.size, other.size)
            if shared == small:
                prefix.append(AxisRef(one.name, one.pre, shared))
        break
    return tuple(prefix)


def subtract_axes(axes: Iterable[AxisRef], removed: Iterable[AxisRef]) -> Axes:
    """`axes` without whatever overlaps `removed`, keeping the parts before and after."""
    rest = list(axes)
    for gone in removed:
        kept: list[AxisRef] = []
        for axis in rest:
            if not axis.overlaps(gone):
                kept.append(axis)
                continue
            if axis.pre < gone.pre:
                kept.append(AxisRef(axis.name, axis.pre, gone.pre // axis.pre))
            if gone.end < axis.end:
                kept.append(AxisRef(axis.name, gone.end, axis.end // gone.end))
        rest = kept
    return tuple(rest)


def truncate_by_divisor(axes: Axes, length: int) -> Axes:
    """The longest major part of `axes` whose size divides `length`; may end in a sub-axis."""
    kept: list[AxisRef] = []
    for axis in axes:
        shared = math.gcd(length, axis.size)
        if shared == axis.size:
            kept.append(axis)
            length //= axis.size
            continue
        if shared > 1:
            kept.append(AxisRef(axis.name, axis.pre, shared))
        break
    return tuple(kept)


def decompose(lists: Iterable[Iterable[AxisRef]]) -> dict[AxisRef, Axes]:
    """Split all axes so that any two parts are equal or disjoint: axis → its parts, major to minor.

    Raises:
        ShardingError: two of them cannot co-exist (`x:(1)2` with `x:(1)3`).
    """
    every = {axis for axes in lists for axis in axes}
    bounds: dict[str, set[int]] = {}
    for axis in every:
        bounds.setdefault(axis.name, set()).update((axis.pre, axis.end))
    parts: dict[AxisRef, Axes] = {}
    for axis in every:
        cuts = sorted(cut for cut in bounds[axis.name] if axis.pre <= cut <= axis.end)
        pieces: list[AxisRef] = []
        for low, high in itertools.pairwise(cuts):
            if high % low:
                raise ShardingError(
                    f"sub-axes of {axis.name!r} cannot be used together", cause=f"cuts at {low} and {high} do not nest"
                )
            pieces.append(AxisRef(axis.name, low, high // low))
        parts[axis] = tuple(pieces) or (axis,)  # an axis of size 1 has no cuts
    return parts


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
