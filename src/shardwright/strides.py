"""How axes lie on the line of devices: by digits, and by the cuts where these begin and end.

A device's place along an axis is a *digit* of its position on the grid, which steps by a stride. Digits of one mesh are
axes and parts of axes of another where they begin and end at the same places.

    >>> here, there = Mesh(x=4, y=2), Mesh(a=2, b=4)
    >>> stride, size = there.digit(there.axis("b"))
    >>> axes_of_digits(((size, stride),), here)
    (AxisRef(name='x', pre=2, size=2), AxisRef(name='y', pre=1, size=2))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Iterator, Sequence

from shardwright.axes import Axes, AxisRef, merge_axes
from shardwright.mesh import Mesh

__all__ = ["Digits", "axes_of_digits", "axis_names", "mesh_names", "mesh_of_cuts"]

Digits = tuple[tuple[int, int], ...]
"""`(size, stride)` pairs, major to minor."""


def axes_of_digits(digits: Digits, mesh: Mesh) -> Axes | None:
    """The axes and sub-axes of `mesh`, major to minor, whose coordinates are `digits` of a grid position.

    `None` where a digit begins or ends where no sub-axis can: on `x=2, y=3`, the digit `(3, 2)` takes half of `y`.

    >>> axes_of_digits(((4, 1), (2, 4)), Mesh(x=2, y=2, z=2))
    (AxisRef(name='y', pre=1, size=2), AxisRef(name='z', pre=1, size=2), AxisRef(name='x', pre=1, size=2))
    """
    axes: list[AxisRef] = []
    for size, stride in digits:
        parts: list[AxisRef] = []
        while size > 1:
            part = _axis_at(size, stride, mesh)
            if part is None:
                return None
            parts.append(part)
            size //= part.size
            stride *= part.size
        axes += reversed(parts)
    return merge_axes(tuple(axes))


def _axis_at(size: int, stride: int, mesh: Mesh) -> AxisRef | None:
    """The widest sub-axis that begins at `stride` and divides `size`."""
    for name, full in mesh.axes:
        low = mesh.strides[name]
        if not low <= stride < low * full:
            continue
        inner, outside = divmod(stride, low)
        if outside or full % inner:
            return None
        end = full // inner
        width = size if end % size == 0 else end
        return AxisRef(name, end // width, width) if size % width == 0 else None
    return None


def mesh_of_cuts(cuts: Iterable[int], device_ids: Sequence[int] | None, name: str, taken: Container[str] = ()) -> Mesh:
    """Axes between the cuts that nest with all others, major to minor; at the rest, parts of axes meet.

    No axis is called by one of the names that are `taken`.
    """
    ordered = sorted(cuts)
    below = itertools.accumulate(ordered, math.lcm)
    above = reversed(list(itertools.accumulate(reversed(ordered), math.gcd)))
    nested = [cut for cut, low, high in zip(ordered, below, above, strict=True) if low == cut == high]
    sizes = [high // low for low, high in reversed(list(itertools.pairwise(nested)))]
    names = (axis for axis in axis_names() if axis not in taken)
    return Mesh(zip(names, sizes, strict=False), device_ids=device_ids, name=name)


def axis_names() -> Iterator[str]:
    """`a`, `b`, …, `z`, `aa`, `ab`, …: names for the axes of a mesh that text leaves unnamed."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for name in itertools.product(letters, repeat=length):
            yield "".join(name)


def mesh_names(stem: str) -> Iterator[str]:
    """`mesh`, `mesh_0`, `mesh_1`, …: names for meshes, of which the first that is free is taken."""
    yield stem
    for number in itertools.count():
        yield f"{stem}_{number}"
