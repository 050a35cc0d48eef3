"""The basic strategy: for every factor the same axes for all tensors, or none.

It is what conservative users of Shardy ask for; the pipeline uses the aggressive one.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import Axes
from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import (
    Direction,
    compatible_axes,
    is_strict_prefix,
    truncate_across,
    truncate_within,
)
from shardwright.propagation.engine.conservative import whole_prefix
from shardwright.propagation.engine.projection import TensorProjection

__all__ = ["propagate_basic"]


def propagate_basic(
    operands: Sequence[TensorProjection],
    results: Sequence[TensorProjection],
    sizes: tuple[int, ...],
    directions: tuple[Direction, ...],
    whole: Mesh | None = None,
) -> tuple[list[TensorProjection], list[bool]]:
    """One step through an op: its tensors (operands, then results) after it, and which of them changed.

    Where `whole` is given, only whole axes of that mesh flow.
    """
    tensors = [*operands, *results]
    changed = [False] * len(tensors)
    count = len(operands)
    for factor, size in enumerate(sizes):
        compatible = compatible_axes(tensors[:count], tensors[count:], factor, directions[factor])
        axes = _agreed(tensors, factor, compatible, size)
        if whole is not None:
            axes = whole_prefix(axes, whole)
        for index, tensor in enumerate(tensors):
            split = tensor.factors.get(factor)
            if split is not None and is_strict_prefix(split.axes, axes):
                factors = {**tensor.factors, factor: split._replace(axes=axes)}
                tensors[index] = TensorProjection(factors, tensor.blocked)
                changed[index] = True
    return tensors, changed


def _agreed(tensors: Sequence[TensorProjection], factor: int, axes: Axes, size: int) -> Axes:
    """What of `axes` no tensor refuses, whether it has the factor or not."""
    for tensor in tensors:
        axes = truncate_across(axes, tensor.factors, factor)
        split = tensor.factors.get(factor)
        if split is not None:
            axes = truncate_within(axes, tensor, split, size)
    return axes
