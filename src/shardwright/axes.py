"""Mesh axes, parts of them, and the algebra of lists of axes.

A *sub-axis* `"x":(pre)size` is what remains of axis `x` after its `pre` major-most parts are taken, `size` wide: on
`x=8`, `x:(1)2` is the major half, `x:(2)4` the minor four.

Source: the `sdy` dialect's AxisRefAttr and SubAxisInfoAttr.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from shardwright.errors import ShardingError

__all__ = [
    "Axes",
    "AxisRef",
    "axes_size",
    "can_coexist",
    "clashing_axes",
    "common_prefix",
    "decompose",
    "is_prefix",
    "merge_axes",
    "overlaps_any",
    "primes_of",
    "subtract_axes",
    "truncate_by_divisor",
]


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


def axes_size(axes: Iterable[AxisRef]) -> int:
    """Product of the sizes of `axes`."""
    return math.prod([axis.size for axis in axes]) if axes else 1


def merge_axes(axes: Axes) -> Axes:
    """Neighbouring parts of the same axis made one: `x:(1)2, x:(2)4` → `x:(1)8`."""
    if len(axes) < 2:
        return axes
    merged: list[AxisRef] = []
    for axis in axes:
        if merged and merged[-1].joins(axis):
            last = merged.pop()
            axis = AxisRef(last.name, last.pre, last.size * axis.size)
        merged.append(axis)
    return tuple(merged)


def primes_of(axis: AxisRef) -> Axes:
    """The parts of prime size that an axis is made of: `x:(1)12` → `x:(1)2, x:(2)2, x:(4)3`."""
    pieces: list[AxisRef] = []
    pre, rest, prime = axis.pre, axis.size, 2
    while rest > 1:
        if rest % prime:
            prime += 1
            continue
        pieces.append(AxisRef(axis.name, pre, prime))
        pre, rest = pre * prime, rest // prime
    return tuple(pieces)


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


def clashing_axes(axes: Iterable[AxisRef]) -> set[str]:
    """The names of those axes of which some parts cannot coexist."""
    pairs = itertools.combinations(axes, 2)
    return {one.name for one, other in pairs if one.name == other.name and not can_coexist(one, other)}


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
