"""A tensor's sharding seen through a rule: which axes split which factor, and back again.

A dimension's axes are dealt, major to minor, over the factors the dimension is made of; an axis that is larger than
what is left of a factor is cut into sub-axes. With `i=4, j=2` and `x=2, y=4`:

    dimension [ij] sharded by {x, y}   →   i: {x, y:(1)2}   j: {y:(2)2}

Where an axis and what is left of a factor share no divisor, that axis and all after it are *overflow* axes of the
factor: they still occupy the dimension, but no other tensor can be split alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.rules.rule import DimFactors, TensorMapping
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["FactorAxes", "FactorSharding", "TensorProjection", "extend_axes", "project", "unproject"]


class FactorSharding(NamedTuple):
    """What one tensor says about one factor.

    Attributes:
        axes: The axes that split the factor, major to minor.
        overflow: Axes that follow them on the dimension but do not fit the factor.
        closed: Whether propagation must not split the factor further here.
        minor_most: Whether the factor is the last of its dimension, and so may be split unevenly.
    """

    axes: Axes
    overflow: Axes
    closed: bool
    minor_most: bool


FactorAxes: TypeAlias = Mapping[int, FactorSharding]
"""Factor → what a tensor says about it."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorProjection:
    """A tensor's sharding by factor.

    Attributes:
        factors: Factor → its sharding, for the factors the tensor has, in order of dimension.
        blocked: Axes that may split none of them: replicated and partial ones.
    """

    factors: dict[int, FactorSharding]
    blocked: Axes


@memoize
def project(mapping: TensorMapping, sharding: TensorSharding | None, sizes: tuple[int, ...]) -> TensorProjection:
    """The sharding of a tensor by factor; a tensor without one is open everywhere, one on one device closed."""
    factors: dict[int, FactorSharding] = {}
    if sharding is None or sharding.mesh.is_maximal:
        for dim in mapping:
            for factor in dim:
                factors[factor] = FactorSharding((), (), sharding is not None, factor == dim[-1])
        return TensorProjection(factors, ())
    for dim, dim_sharding in zip(mapping, sharding.dims, strict=True):
        _deal(dim, dim_sharding, sizes, sharding.mesh, factors)
    return TensorProjection(factors, sharding.replicated + sharding.partial_axes)


def _deal(
    dim: DimFactors, dim_sharding: DimSharding, sizes: tuple[int, ...], mesh: Mesh, factors: dict[int, FactorSharding]
) -> None:
    """Deal the axes of one dimension over its factors."""
    if len(dim) == 1:
        factors[dim[0]] = FactorSharding(extend_axes((), dim_sharding.axes), (), not dim_sharding.open, True)
        return
    rest = list(dim_sharding.axes)
    overflowed = False
    for factor in dim:
        minor_most = factor == dim[-1]
        if overflowed:
            factors[factor] = FactorSharding((), (), True, minor_most)
            break  # as in Shardy, further factors of the dimension are not seen at all
        if minor_most:
            factors[factor] = FactorSharding(extend_axes((), rest), (), not dim_sharding.open, True)
            continue
        taken, left = _take(rest, sizes[factor])
        overflow: Axes = ()
        if left > 1 and rest:
            overflowed = True
            overflow = extend_axes((), rest)
        factors[factor] = FactorSharding(tuple(taken), overflow, not dim_sharding.open, False)


def _take(rest: list[AxisRef], size: int) -> tuple[list[AxisRef], int]:
    """Take from the front of `rest` what fits into a factor of `size`; also what is left of the factor."""
    taken: list[AxisRef] = []
    while rest:
        axis = rest[0]
        shared = math.gcd(size, axis.size)
        if shared == 1 and axis.size != 1:
            break
        size //= shared
        if axis.size > shared:
            taken.append(AxisRef(axis.name, axis.pre, shared))
            rest[0] = AxisRef(axis.name, axis.pre * shared, axis.size // shared)
        else:
            taken.append(axis)
            del rest[0]
    return taken, size


def extend_axes(axes: Axes, more: Axes | list[AxisRef]) -> Axes:
    """`axes` followed by `more`, neighbouring parts of an axis merged where the two lists meet and within `more`."""
    if not more or (not axes and len(more) == 1):
        return axes or tuple(more)
    merged = list(axes)
    for axis in more:
        if merged and merged[-1].joins(axis):
            last = merged.pop()
            axis = AxisRef(last.name, last.pre, last.size * axis.size)
        merged.append(axis)
    return tuple(merged)


def unproject(
    mapping: TensorMapping,
    factors: FactorAxes,
    sizes: tuple[int, ...],
    mesh: Mesh,
    replicated: Axes,
    partial: tuple[Partial, ...],
) -> TensorSharding:
    """The sharding of a tensor whose factors are split as `factors` says.

    A factor that is not split in full ends its dimension: a further, minor factor would need a strided view.
    """
    dims: list[DimSharding] = []
    for dim in mapping:
        if len(dim) == 1 and not (split := factors[dim[0]]).overflow:
            dims.append(_dim(split.axes, not split.closed))
            continue
        axes: Axes = ()
        closed = False
        for factor in dim:
            split = factors[factor]
            closed = closed or split.closed
            axes = extend_axes(axes, split.axes[:1]) + split.axes[1:]
            if split.overflow:
                axes = extend_axes(axes, split.overflow[:1]) + split.overflow[1:]
                break
            if axes_size(split.axes) < sizes[factor]:
                break
        dims.append(_dim(axes, not closed))
    return TensorSharding(mesh, tuple(dims), replicated, partial)


def _dim(axes: Axes, open: bool) -> DimSharding:
    return DimSharding(axes, open) if axes else _WHOLE[open]


_WHOLE = (DimSharding(), DimSharding((), True))
"""A dimension that is not split, closed and open."""
