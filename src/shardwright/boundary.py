"""What stands at the boundary of a computation: how values lie outside, and along which axes the body is local.

A manual computation has a body written for one device along its *manual axes*, which come first in every dimension of
what enters and leaves it. Outside of it a value is split along these too, inside along the others only:

    >>> from shardwright.mesh import Mesh
    >>> outside = TensorSharding.of(Mesh(x=2, y=4), [["x", "y"], []])
    >>> without_manual_axes(outside, ("x",))
    [{y}, {}]

Source: the `sdy` dialect reference (ManualComputationOp, NamedComputationOp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from shardwright.axes import Axes, merge_axes, overlaps_any, subtract_axes
from shardwright.memo import Hashed
from shardwright.sharding import DimSharding, TensorSharding

__all__ = [
    "NOTHING_STATED",
    "Boundary",
    "with_manual_axes",
    "with_replicated",
    "with_unmentioned",
    "without_manual_axes",
]


@dataclass(frozen=True, eq=False)
class Boundary(Hashed):
    """What an op itself states of the values that enter and leave it; frozen, compared by value.

    Attributes:
        in_shardings: How its operands lie; `None` where a named computation says nothing of them.
        out_shardings: How its results lie, `None` likewise; of an op without results where it runs.
        manual_axes: The names of the axes along which the body is a program for one device, as they are listed.
    """

    in_shardings: tuple[TensorSharding, ...] | None = None
    out_shardings: tuple[TensorSharding, ...] | None = None
    manual_axes: tuple[str, ...] = ()

    @property
    def free_axes(self) -> tuple[str, ...]:
        """The names of the axes that split a value and are not manual, sorted."""
        used = {axis.name for sharding in self.shardings for axis in sharding.used_axes}
        return tuple(sorted(used.difference(self.manual_axes)))

    @property
    def shardings(self) -> tuple[TensorSharding, ...]:
        """All that is stated, of operands first."""
        return (*(self.in_shardings or ()), *(self.out_shardings or ()))

    def changed(self, change: Callable[[TensorSharding], TensorSharding]) -> Boundary:
        """The same with every sharding changed."""
        ins, outs = (
            None if side is None else tuple(map(change, side)) for side in (self.in_shardings, self.out_shardings)
        )
        return Boundary(ins, outs, self.manual_axes)

    def layouts(self) -> Boundary:
        """The same as layouts, partial along manual axes alone.

        Along those the body makes, or takes, each device's own contribution. Along all others it computes on what the
        value is: that it may be held unreduced there is no part of its meaning.
        """

        def layout(stated: TensorSharding) -> TensorSharding:
            closed = stated.closed()
            return closed.with_axes(closed.axes, [p for p in closed.partial if p.axis.name in self.manual_axes])

        return self.changed(layout)


NOTHING_STATED = Boundary()
"""The boundary of an op whose results alone have shardings."""


def without_manual_axes(sharding: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    """What is seen inside: manual axes, which come first in every dimension, taken away."""
    if not manual:
        return sharding
    dims = tuple(replace(dim, axes=dim.axes[_manual_count(dim.axes, manual) :]) for dim in sharding.dims)
    return replace(
        sharding,
        dims=dims,
        replicated=tuple(axis for axis in sharding.replicated if axis.name not in manual),
        partial=tuple(p for p in sharding.partial if p.axis.name not in manual),
    )


def with_manual_axes(boundary: TensorSharding, inside: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    """What is seen outside: the manual axes of `boundary`, then the free axes of `inside`.

    The boundary says what is replicated and unreduced, but for axes that `inside` splits dimensions by.
    """
    dims = tuple(
        DimSharding(at.axes[: _manual_count(at.axes, manual)] + free.axes, free.open, free.priority)
        for at, free in zip(boundary.dims, inside.dims, strict=True)
    )
    taken = inside.used_axes
    replicated = tuple(axis for axis in boundary.replicated if not overlaps_any(axis, taken))
    partial = tuple(p for p in boundary.partial if not overlaps_any(p.axis, taken))
    return TensorSharding(inside.mesh, dims, replicated, partial)


def with_replicated(sharding: TensorSharding, axes: Axes) -> TensorSharding:
    """A sharding that has `axes` replicated too."""
    added = [axis for axis in axes if axis not in sharding.replicated]
    if not added:
        return sharding
    return replace(sharding, replicated=tuple(sorted((*sharding.replicated, *added), key=sharding.mesh.sort_key)))


def with_unmentioned(sharding: TensorSharding, manual: Iterable[str]) -> TensorSharding:
    """A sharding at the boundary of a computation that is replicated along manual axes that it does not mention.

    Of an axis that it mentions parts of, these are the other parts; parts that meet are one.
    """
    used = (*sharding.used_axes, *sharding.replicated, *sharding.partial_axes)
    unmentioned = subtract_axes([sharding.mesh.axis(name) for name in manual], used)
    if not unmentioned:
        return sharding
    ordered = sorted((*sharding.replicated, *unmentioned), key=sharding.mesh.sort_key)
    return replace(sharding, replicated=merge_axes(tuple(ordered)))


def _manual_count(axes: Axes, manual: tuple[str, ...]) -> int:
    count = 0
    while count < len(axes) and axes[count].name in manual:
        count += 1
    return count
