"""Which axes the tensors of an op can agree on for a factor: the part that both strategies share.

Two steps. First the *compatible* axes of a factor are found: the longest list of major axes that every tensor's own
list either begins or continues:

    {a} and {a, b}            →  {a, b}
    {a, b} and {a, c}         →  {a}
    {a:(1)2} and {a:(1)4}     →  {a:(1)4}
    {a:(1)2, b} and {a:(1)4}  →  {a:(1)2}

Then such a list is *truncated* before the first axis that a given tensor cannot take: because it splits another factor
there, is replicated or partial there, the factor is closed there, or it does not divide the factor.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence

from shardwright.axes import Axes, AxisRef, can_coexist
from shardwright.propagation.engine.projection import FactorAxes, FactorSharding, TensorProjection

__all__ = [
    "Direction",
    "compatible_axes",
    "is_strict_prefix",
    "prefix_status",
    "truncate_across",
    "truncate_within",
    "without_overlap",
]


class Direction(enum.IntFlag):
    """Which side of an op may be split further by what the other side says."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    BOTH = 3


def is_axis_prefix(axis: AxisRef, of: AxisRef) -> bool:
    """Whether `axis` is a major part of `of`, or equal; divisibility is not asked (as in Shardy)."""
    return axis.name == of.name and axis.pre == of.pre and axis.size <= of.size


def without_overlap(axis: AxisRef, others: Iterable[AxisRef]) -> AxisRef | None:
    """The longest major part of `axis` that overlaps none of `others`; `None` where nothing is left."""
    for other in others:
        if axis.name != other.name:
            continue
        if not can_coexist(axis, other):
            return None
        if not axis.overlaps(other):
            continue
        if axis.pre >= other.pre:
            return None
        axis = AxisRef(axis.name, axis.pre, other.pre // axis.pre)
    return axis


def prefix_status(first: Axes, second: Axes) -> int:
    """2 if the lists are equal, 1 if `first` begins `second` (its last axis may be a part), else 0."""
    if not first:
        return 1 if second else 2
    count = len(first)
    if count > len(second) or first[:-1] != second[: count - 1]:
        return 0
    if count == len(second) and first[-1] == second[-1]:
        return 2
    return 1 if is_axis_prefix(first[-1], second[count - 1]) else 0


def is_strict_prefix(first: Axes, second: Axes) -> bool:
    """Whether `first` begins `second` and `second` has more."""
    if not first:
        return bool(second)
    return prefix_status(first, second) == 1


def compatible_axes(
    operands: Sequence[TensorProjection], results: Sequence[TensorProjection], factor: int, direction: Direction
) -> Axes:
    """The axes that all tensors agree on for `factor`, conflicts with other factors left aside.

    Towards one direction only the tensors it comes from may add axes; the others may only contradict.
    """
    if not direction:
        return ()
    first, second = (results, operands) if direction == Direction.BACKWARD else (operands, results)
    axes: Axes = ()
    expand = True
    for tensor in first:
        split = tensor.factors.get(factor)
        if split is not None and split.axes:
            axes, expand = _merge(axes, split.axes, expand)
    expand = expand and direction == Direction.BOTH
    for tensor in second:
        split = tensor.factors.get(factor)
        if split is not None and split.axes:
            axes, expand = _merge(axes, split.axes, expand)
    return axes


def _merge(old: Axes, new: Axes, expand: bool) -> tuple[Axes, bool]:
    """The compatible major axes of two lists, and whether a third list may add to them.

    Without `expand` the answer is at most `old`.
    """
    if not old:
        return (new if expand else old), expand
    if old == new:
        return old, expand
    merged: list[AxisRef] = []
    for index, (ours, theirs) in enumerate(zip(old, new, strict=False)):
        if ours == theirs:
            merged.append(ours)
        elif is_axis_prefix(theirs, ours):
            if len(new) > index + 1:
                return (*merged, theirs), False
            merged.append(ours)
        elif is_axis_prefix(ours, theirs):
            if not expand or len(old) > index + 1:
                return (*merged, ours), False
            merged.append(theirs)
        else:
            return tuple(merged), False
    shared = len(merged)
    rest = old[shared:] + (new[shared:] if expand else ())
    return (*merged, *rest), expand


def truncate_within(axes: Axes, tensor: TensorProjection, split: FactorSharding, size: int) -> Axes:
    """What of `axes` a tensor can take on a factor of `size`, other factors left aside; `split`: what it has."""
    sharded = 1
    for index, axis in enumerate(axes):
        fits = _fit(axis, tensor.blocked, split, sharded, size)
        if fits is None:
            return axes[:index]
        if fits != axis:
            return (*axes[:index], fits)
        sharded *= axis.size
    return axes


def _fit(axis: AxisRef, blocked: Axes, split: FactorSharding, sharded: int, size: int) -> AxisRef | None:
    fits = without_overlap(axis, blocked)
    if fits is None:
        return None
    for present in split.axes:
        if present.contains(fits):
            return fits
    if not split.closed and not split.overflow:
        if split.minor_most:
            return fits
        if size % sharded == 0:
            shared = math.gcd(size // sharded, fits.size)
            if shared == fits.size:
                return fits
            if shared != 1:
                return AxisRef(fits.name, fits.pre, shared)
    if split.axes and is_axis_prefix(split.axes[-1], fits):
        return split.axes[-1]
    return None


def truncate_across(axes: Axes, factors: FactorAxes, factor: int) -> Axes:
    """What of `axes` overlaps no axis of a tensor's other factors."""
    for index, axis in enumerate(axes):
        kept = axis
        for other, split in factors.items():
            if other == factor:
                continue
            fits = without_overlap(kept, split.overflow + split.axes)
            if fits is None:
                return axes[:index]
            kept = fits
        if kept != axis:
            return (*axes[:index], kept)
    return axes
