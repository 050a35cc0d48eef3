"""What notations share that name axes by position: axes at positions, positions of axes, and whole axes only."""

from __future__ import annotations

from collections.abc import Iterable

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.names import symbol_name, symbol_text
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["axes_at", "layout", "mesh_symbol", "named", "positions"]


def named(mesh: Mesh | None, symbol: str | None, text: str) -> Mesh:
    """The mesh given, called `symbol` where the text names one.

    Raises:
        ShardingError: no mesh is given, or it has no axes.
    """
    if mesh is None:
        what = f"the mesh {symbol}" if symbol else "the mesh"
        raise ShardingError(f"{what} is not known", cause=f"sharding {text[:200]!r}", remedy="give the mesh")
    if not mesh.axes:
        raise ShardingError(
            "a mesh of no axes", cause="a grid has at least one axis", remedy="give it an axis of size 1"
        )
    return mesh if symbol is None else Mesh(mesh.axes, device_ids=mesh.device_ids, name=symbol_name(symbol))


def axes_at(lists: Iterable[Iterable[int]], mesh: Mesh) -> list[Axes]:
    """The axes at positions of the mesh, list by list.

    Raises:
        ShardingError: a negative position, one past the mesh, or one that is there twice.
    """
    groups: list[Axes] = []
    seen: set[int] = set()
    for numbers in lists:
        for position in numbers:
            if not 0 <= position < len(mesh.axes):
                raise ShardingError(
                    f"there is no mesh axis {position}",
                    cause=f"{mesh!r} has {counted(len(mesh.axes), 'axis')}, counted from 0",
                    remedy=f"use 0 to {len(mesh.axes) - 1}",
                )
            if position in seen:
                raise ShardingError(
                    f"mesh axis {position} is given twice",
                    cause="an axis may split one dimension or be partial, once",
                    remedy="take it out of one of the lists",
                )
            seen.add(position)
        groups.append(tuple(mesh.axis(mesh.axes[position][0]) for position in numbers))
    return groups


def layout(sharding: TensorSharding, notation: str) -> TensorSharding:
    """The sharding for a notation that knows layouts of whole axes only: closed, neighbouring parts merged.

    Raises:
        ShardingError: an open dimension, a priority, or a part of an axis.
    """
    if any(dim.open or dim.priority for dim in sharding.dims):
        raise ShardingError(
            f"{notation} cannot express open dimensions or priorities",
            cause=f"sharding {sharding!r}",
            remedy="close its dimensions, or print it as sdy",
        )
    closed = sharding.closed()
    for axis in (*closed.used_axes, *closed.partial_axes):
        if not sharding.mesh.is_full(axis):
            raise ShardingError(
                f"{notation} cannot express parts of a mesh axis",
                cause=f"sharding {sharding!r} uses {axis.name!r}{axis.part} of {sharding.mesh!r}",
                remedy="give the mesh an axis for each part, or print it as sdy",
            )
    return closed


def positions(axes: Iterable[Axes], mesh: Mesh) -> list[list[int]]:
    """Axes as their positions in the mesh, list by list."""
    return [[mesh.order[axis.name] for axis in group] for group in axes]


def mesh_symbol(mesh: Mesh) -> str:
    """`@mesh`, quoted where the name asks for it.

    Raises:
        ShardingError: the mesh has no name.
    """
    if not mesh.name:
        raise ShardingError(
            "a mesh without a name cannot be written", cause="texts refer to it as @name", remedy="give it a name"
        )
    return symbol_text(mesh.name)
