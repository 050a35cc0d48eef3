"""Whether shards fit together: the same axes on a dimension, the same elements through a reshape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardwright.axes import Axes, AxisRef, decompose, merge_axes
from shardwright.errors import ShardingError
from shardwright.memo import memoize
from shardwright.sharding import TensorSharding

__all__ = ["same_elements", "wide"]


def wide(axes: Sequence[AxisRef]) -> Axes:
    """`axes` without those of one device, neighbouring parts merged."""
    if not axes:
        return ()
    return merge_axes(tuple(axis for axis in axes if axis.size > 1))


@memoize
def same_elements(
    shape: tuple[int, ...], sharding: TensorSharding, reshaped: tuple[int, ...], resharding: TensorSharding
) -> bool:
    """Whether every device holds the same elements, in the same order, of a tensor and of its reshape.

    A device's coordinate along an axis is one digit of the position of its elements, counted row-major through the
    whole tensor: `position // stride % size`. Shards hold the same elements where the same axes are the same digits;
    axes are compared in the parts that both sides have, since a reshape may put parts of an axis on several dimensions.
    """
    if 0 in shape:
        return True
    try:
        parts = decompose([*map(wide, sharding.axes), *map(wide, resharding.axes)])
    except ShardingError:
        return False  # sub-axes that no split of their axis has both of are different digits
    return _digits(shape, sharding, parts) == _digits(reshaped, resharding, parts)


def _digits(shape: tuple[int, ...], sharding: TensorSharding, parts: Mapping[AxisRef, Axes]) -> dict[AxisRef, int]:
    """The stride of the digit that each part of the axes in use stands for."""
    strides: dict[AxisRef, int] = {}
    inner = 1
    for size, axes in zip(reversed(shape), reversed(sharding.axes), strict=True):
        rest = size
        for axis in wide(axes):
            for part in parts[axis]:
                rest //= part.size
                strides[part] = inner * rest
        inner *= size
    return strides
