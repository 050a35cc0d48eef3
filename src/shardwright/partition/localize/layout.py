"""Whether shards fit together: the same axes on a dimension, the same elements through a reshape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shardwright.memo import memoize
from shardwright.mesh import Axes, AxisRef, merge_axes
from shardwright.sharding import TensorSharding

__all__ = ["same_elements", "wide"]


def wide(axes: Sequence[AxisRef]) -> Axes:
    """`axes` without those of one device, neighbouring parts merged."""
    return merge_axes(tuple(axis for axis in axes if axis.size > 1))


@memoize
def same_elements(
    shape: tuple[int, ...], sharding: TensorSharding, reshaped: tuple[int, ...], resharding: TensorSharding
) -> bool:
    """Whether every device holds the same elements, in the same order, of a tensor and of its reshape.

    A device's coordinate along an axis is one digit of the position of its elements, counted row-major through the
    whole tensor: `position // stride % size`. Shards hold the same elements where the same axes are the same digits;
    axes are compared in prime parts, since a reshape may put the parts of one axis on several dimensions.
    """
    return 0 in shape or _digits(shape, sharding) == _digits(reshaped, resharding)


def _digits(shape: tuple[int, ...], sharding: TensorSharding) -> dict[tuple[str, int], tuple[int, int]]:
    """Size and stride of the digit that each prime part `(axis, pre)` of the axes in use stands for."""
    digits: dict[tuple[str, int], tuple[int, int]] = {}
    inner = 1
    for size, axes in zip(reversed(shape), reversed(sharding.axes), strict=True):
        rest = size
        for axis in axes:
            for pre, prime in _prime_parts(axis):
                rest //= prime
                digits[axis.name, pre] = (prime, inner * rest)
        inner *= size
    return digits


def _prime_parts(axis: AxisRef) -> Iterator[tuple[int, int]]:
    """Pre-size and size of the parts of `axis` that cannot be cut further, major to minor."""
    pre, rest, prime = axis.pre, axis.size, 2
    while rest > 1:
        if rest % prime:
            prime += 1
            continue
        yield pre, prime
        pre, rest = pre * prime, rest // prime
