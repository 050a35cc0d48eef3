"""Shardings as pictures in notebooks.

A sharding alone knows no shape; it is drawn on the smallest one that shows all of its tiles.

    >>> from shardwright.mesh import Mesh
    >>> sharding = TensorSharding.of(Mesh(x=2, y=4), [["x"], ["y"], []])
    >>> illustrated(sharding), sharding._repr_html_()[:4]
    ((2, 4, 1), '<svg')
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.notation.notation import shape_of
from shardwright.report.show import Picture, picture, picture_svg
from shardwright.sharding import TensorSharding
from shardwright.words import kind_of

__all__ = ["illustrated", "sharding_svg", "show"]


def show(sharding: TensorSharding, shape: Sequence[int] | None = None) -> Picture:
    """How a tensor of `shape` (without one: of the smallest that shows all tiles) lies on its mesh.

    A notebook draws what comes back; `str()` of it is the picture of a terminal.

    Raises:
        ShardingError: the sharding does not fit the shape, or is a text that has not been read.

    Example:
        >>> import shardwright as sw
        >>> print(str(sw.show(sw.parse_sharding("{devices=[2,1]0,1}", shape=(4, 3)), (4, 3))).splitlines()[0])
        tensor 4x3 in 2 tiles (2x1) of 2x3
    """
    if not isinstance(sharding, TensorSharding):
        raise ShardingError(
            f"not a sharding: {sharding!r}"[:200],
            cause=f"it is {kind_of(sharding)}",
            remedy="read it first: sw.show(sw.parse_sharding(text, shape=shape), shape)",
        )
    return picture(sharding, illustrated(sharding) if shape is None else shape_of(shape))


def illustrated(sharding: TensorSharding) -> tuple[int, ...]:
    """The smallest shape whose tiles all hold something: shards and halos of one element, or the offsets' own."""
    offsets = sharding.offsets or (None,) * sharding.rank
    halos = sharding.halos or (None,) * sharding.rank
    return tuple(
        cuts[-1] if cuts else axes_size(axes) * max(1, *(halo or (1,)))
        for cuts, halo, axes in zip(offsets, halos, sharding.axes, strict=True)
    )


def sharding_svg(sharding: TensorSharding) -> str:
    """What a notebook shows of a sharding."""
    return picture_svg(show(sharding))
