"""Whether shards fit together: the same axes on a dimension, the same elements through a reshape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from shardwright.memo import memoize
from shardwright.mesh import Axes, AxisRef, merge_axes
from shardwright.sharding import TensorSharding

__all__ = ["same_elements", "wide"]

_Block = list[tuple[int, Axes]]
"""Neighbouring dimensions: size and axes of each."""


def wide(axes: Sequence[AxisRef]) -> Axes:
    """`axes` without those of one device, neighbouring parts merged."""
    return merge_axes(tuple(axis for axis in axes if axis.size > 1))


@memoize
def same_elements(
    shape: tuple[int, ...], sharding: TensorSharding, reshaped: tuple[int, ...], resharding: TensorSharding
) -> bool:
    """Whether every device holds the same elements, in the same order, of a tensor and of its reshape.

    Both shapes fall into blocks of equal size, and each block into common factors, major to minor: 8x4 → 2x16 has the
    factors 2, 4, 4 on both sides. The axes of a dimension split its factors, the major ones first; equal axes on every
    factor mean equal elements. In a block without common factors (6x4 → 8x3) only the major dimensions may be split.
    """
    if 0 in shape:
        return True
    left = [(size, wide(axes)) for size, axes in zip(shape, sharding.axes, strict=True) if size > 1]
    right = [(size, wide(axes)) for size, axes in zip(reshaped, resharding.axes, strict=True) if size > 1]
    return all(_same_block(one, other) for one, other in _blocks(left, right))


def _blocks(left: _Block, right: _Block) -> Iterator[tuple[_Block, _Block]]:
    """The smallest runs of dimensions that hold equally many elements on both sides."""
    one: _Block = []
    other: _Block = []
    for dim in left:
        one.append(dim)
        while _elements(other) < _elements(one) and right:
            other.append(right[0])
            right = right[1:]
        if _elements(one) == _elements(other):
            yield one, other
            one, other = [], []


def _elements(block: _Block) -> int:
    """Elements of a block."""
    return math.prod(size for size, _ in block)


def _same_block(left: _Block, right: _Block) -> bool:
    factors = _common_factors([size for size, _ in left], [size for size, _ in right])
    if factors is None:
        major_only = not any(axes for _, axes in (*left[1:], *right[1:]))
        return major_only and left[0][1] == right[0][1]
    spread = _spread(left, factors)
    return spread is not None and spread == _spread(right, factors)


def _common_factors(left: list[int], right: list[int]) -> list[int] | None:
    """Sizes whose products, in order, make up the dimensions of both sides, or `None` where cuts do not nest."""
    bounds = sorted(_bounds(left) | _bounds(right))
    pairs = list(pairwise(bounds))
    return None if any(high % low for low, high in pairs) else [high // low for low, high in pairs]


def _bounds(sizes: list[int]) -> set[int]:
    """How many parts the block is in after each dimension."""
    return {math.prod(sizes[:count]) for count in range(len(sizes) + 1)}


def _spread(block: _Block, factors: list[int]) -> list[Axes] | None:
    """The axes that split each factor; `None` where a shard ends unevenly within one."""
    spread: list[Axes] = []
    queue = iter(factors)
    for size, axes in block:
        rest = list(axes)
        while size > 1:
            factor = next(queue)
            taken = _take(rest, factor)
            if taken is None:
                return None
            spread.append(taken)
            size //= factor
    return spread


def _take(rest: list[AxisRef], factor: int) -> Axes | None:
    """Take from `rest` the major axes that split `factor`, which is used up before the next factor is split."""
    taken: list[AxisRef] = []
    while rest and factor > 1:
        axis = rest.pop(0)
        shared = math.gcd(factor, axis.size)
        if shared not in (factor, axis.size):
            return None
        taken.append(AxisRef(axis.name, axis.pre, shared))
        if shared < axis.size:
            rest.insert(0, AxisRef(axis.name, axis.pre * shared, axis.size // shared))
        factor //= shared
    return merge_axes(tuple(taken))
