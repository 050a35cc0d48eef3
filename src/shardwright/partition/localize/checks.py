"""What a localizer relies on, checked: a program that breaks it is refused, never computed wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardwright.axes import Axes, axes_size, subtract_axes
from shardwright.errors import ShardingError
from shardwright.partition.localize.layout import wide
from shardwright.sharding import TensorSharding

__all__ = ["is_split", "require_alike", "require_axes", "require_partial", "require_whole"]


def is_split(axes: Axes) -> bool:
    """Whether `axes` split anything."""
    return axes_size(axes) > 1


def require_whole(what: str, dims: Iterable[int], *shardings: TensorSharding) -> None:
    """Check that no sharding splits one of `dims`.

    Raises:
        ShardingError: naming the dimension.
    """
    for dim in dims:
        for sharding in shardings:
            if is_split(sharding.axes[dim]):
                raise ShardingError(
                    f"{what} needs dimension {dim} whole, but it lies as {sharding!r}",
                    remedy="gather the dimension before the op",
                )


def require_alike(what: str, dims: Iterable[int], first: TensorSharding, *others: TensorSharding) -> None:
    """Check that all shardings split each of `dims` by the same axes.

    Raises:
        ShardingError: naming the dimension.
    """
    for dim in dims:
        for other in others:
            if wide(first.axes[dim]) != wide(other.axes[dim]):
                raise ShardingError(
                    f"{what} needs dimension {dim} split alike, but has {first!r} and {other!r}",
                    remedy="reshard one of them before the op",
                )


def require_axes(what: str, sharding: TensorSharding, dims: Sequence[Axes]) -> None:
    """Check that `sharding` splits its dimensions by the axes `dims`.

    Raises:
        ShardingError: naming the dimension.
    """
    for dim, (own, expected) in enumerate(zip(sharding.axes, dims, strict=True)):
        if wide(own) != wide(expected):
            raise ShardingError(
                f"{what} lies as {sharding!r}",
                cause=f"its dimension {dim} should be split by [{', '.join(axis.name for axis in expected)}]",
            )


def require_partial(what: str, axes: Axes, kind: str, sharding: TensorSharding) -> None:
    """Check that `sharding` says that contributions by `kind` are left along `axes`.

    Raises:
        ShardingError: naming the axes along which it does not.
    """
    rest = subtract_axes(wide(axes), [p.axis for p in sharding.partial if p.kind == kind])
    if rest:
        raise ShardingError(
            f"{what} leaves contributions to a {kind} along {', '.join(axis.name for axis in rest)}",
            cause=f"the result is declared as {sharding!r}",
            remedy="declare the result partial, or gather the operand before the op",
        )
