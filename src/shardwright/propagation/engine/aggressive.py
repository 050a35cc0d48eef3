"""The aggressive strategy: every tensor takes what it can, so that tensors may end up split differently.

For `dot(lhs: ik, rhs: kj) -> ij` with `i` split by `x` in lhs and `j` split by `x` in rhs, the result cannot have both.
Basic propagation gives it neither. Here factors come one after the other, and the first one wins:

1. the factor whose axes come from the larger tensor;
2. for elementwise ops, where all tensors are equally large, the factor that is split more;
3. from the earlier tensor; 4. the earlier factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardwright.axes import Axes, axes_size
from shardwright.mesh import Mesh
from shardwright.propagation.engine.compatible import (
    Direction,
    compatible_axes,
    is_strict_prefix,
    prefix_status,
    truncate_across,
    truncate_within,
)
from shardwright.propagation.engine.conservative import whole_prefix
from shardwright.propagation.engine.projection import TensorProjection

__all__ = ["expand", "no_more_than_results", "order_of_factors", "propagate_aggressive", "taken"]


def propagate_aggressive(
    operands: Sequence[TensorProjection],
    results: Sequence[TensorProjection],
    sizes: tuple[int, ...],
    directions: tuple[Direction, ...],
    elementwise: bool,
    whole: Mesh | None = None,
) -> tuple[list[TensorProjection], list[bool]]:
    """One step through an op: its tensors (operands, then results) after it, and which of them changed.

    Where `whole` is given, only whole axes of that mesh flow.
    """
    tensors = [*operands, *results]
    changed = [False] * len(tensors)
    compatible, lacking = _compatible(operands, results, directions)
    if not lacking:
        return tensors, changed
    count = len(operands)
    for factor in order_of_factors(tensors, sizes, compatible, elementwise) if len(lacking) > 1 else lacking:
        for index in lacking.get(factor, ()):
            axes = taken(tensors[index], factor, compatible[factor], sizes[factor], whole)
            if axes and elementwise and index < count:
                axes = no_more_than_results(tensors[count:], factor, axes)
            expand(tensors, changed, index, factor, axes)
    return tensors, changed


def _compatible(
    operands: Sequence[TensorProjection], results: Sequence[TensorProjection], directions: tuple[Direction, ...]
) -> tuple[list[Axes], dict[int, list[int]]]:
    """The compatible axes of each factor, and of those where it matters the tensors that have less, results first.

    What a tensor takes in the end is a major part of the compatible axes, so that no other tensor can change.
    """
    compatible: list[Axes] = [()] * len(directions)
    lacking: dict[int, list[int]] = {}
    split_factors = {
        factor for tensor in (*operands, *results) for factor, split in tensor.factors.items() if split.axes
    }
    count = len(operands)
    tensors = [*enumerate(results, count), *enumerate(operands)]
    for factor in split_factors:
        axes = compatible[factor] = compatible_axes(operands, results, factor, directions[factor])
        if not axes:
            continue
        less = [
            index
            for index, tensor in tensors
            if (split := tensor.factors.get(factor)) is not None and is_strict_prefix(split.axes, axes)
        ]
        if less:
            lacking[factor] = less
    return compatible, lacking


def order_of_factors(
    tensors: Sequence[TensorProjection], sizes: tuple[int, ...], compatible: Sequence[Axes], elementwise: bool
) -> list[int]:
    """The factors, the one to be served first first."""
    sources = [(1, -1)] * len(sizes)  # (-size, index) of the largest tensor that a factor's axes come from
    for index, tensor in enumerate(tensors):
        size = math.prod([sizes[factor] for factor in tensor.factors])
        for factor, split in tensor.factors.items():
            if compatible[factor] and prefix_status(compatible[factor], split.axes) and -size < sources[factor][0]:
                sources[factor] = (-size, index)
    splits = [axes_size(axes) if elementwise else 1 for axes in compatible]

    def urgency(factor: int) -> tuple[int, int, int, int]:
        size, index = sources[factor]
        return size, -splits[factor], index, factor

    return sorted(range(len(sizes)), key=urgency)


def taken(tensor: TensorProjection, factor: int, axes: Axes, size: int, whole: Mesh | None) -> Axes:
    """The axes a tensor takes for a factor, or none if that is no more than it has."""
    split = tensor.factors.get(factor)
    if split is None or not axes:
        return ()
    within = truncate_within(axes, tensor, split, size)
    if whole is not None:
        within = whole_prefix(within, whole)
    if not is_strict_prefix(split.axes, within):
        return ()
    across = truncate_across(within, tensor.factors, factor)
    return across if whole is None else whole_prefix(across, whole)


def no_more_than_results(results: Sequence[TensorProjection], factor: int, axes: Axes) -> Axes:
    """An elementwise op's operands are split no further than its results, else all of them would be gathered."""
    for result in results:
        split = result.factors.get(factor)
        if split is not None and is_strict_prefix(split.axes, axes):
            axes = split.axes
    return axes


def expand(tensors: list[TensorProjection], changed: list[bool], index: int, factor: int, axes: Axes) -> None:
    """Split a factor of a tensor further by some axes, if they go on from what it has."""
    if not axes:
        return
    tensor = tensors[index]
    split = tensor.factors[factor]
    if is_strict_prefix(split.axes, axes):
        tensors[index] = TensorProjection({**tensor.factors, factor: split._replace(axes=axes)}, tensor.blocked)
        changed[index] = True
