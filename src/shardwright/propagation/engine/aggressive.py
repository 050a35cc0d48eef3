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

__all__ = ["propagate_aggressive"]


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
    found, wanting = _found(operands, results, directions)
    if not wanting:
        return tensors, changed
    count = len(operands)
    for factor in _order(tensors, sizes, found, elementwise) if len(wanting) > 1 else wanting:
        for index in wanting.get(factor, ()):
            taken = _taken(tensors[index], factor, found[factor], sizes[factor], whole)
            if taken and elementwise and index < count:
                taken = _no_more_than_results(tensors[count:], factor, taken)
            _expand(tensors, changed, index, factor, taken)
    return tensors, changed


def _found(
    operands: Sequence[TensorProjection], results: Sequence[TensorProjection], directions: tuple[Direction, ...]
) -> tuple[list[Axes], dict[int, list[int]]]:
    """The compatible axes of each factor, and of those where it matters the tensors that have less, results first.

    What a tensor takes in the end is a major part of the compatible axes, so that no other tensor can change.
    """
    found: list[Axes] = [()] * len(directions)
    wanting: dict[int, list[int]] = {}
    split = {factor for tensor in (*operands, *results) for factor, said in tensor.factors.items() if said.axes}
    count = len(operands)
    tensors = [*enumerate(results, count), *enumerate(operands)]
    for factor in split:
        axes = found[factor] = compatible_axes(operands, results, factor, directions[factor])
        if not axes:
            continue
        less = [
            index
            for index, tensor in tensors
            if (said := tensor.factors.get(factor)) is not None and is_strict_prefix(said.axes, axes)
        ]
        if less:
            wanting[factor] = less
    return found, wanting


def _order(
    tensors: Sequence[TensorProjection], sizes: tuple[int, ...], found: Sequence[Axes], elementwise: bool
) -> list[int]:
    """The factors, the one to be served first first."""
    sources = [(1, -1)] * len(sizes)  # (-size, index) of the largest tensor that a factor's axes come from
    for index, tensor in enumerate(tensors):
        size = math.prod([sizes[factor] for factor in tensor.factors])
        for factor, said in tensor.factors.items():
            if found[factor] and prefix_status(found[factor], said.axes) and -size < sources[factor][0]:
                sources[factor] = (-size, index)
    splits = [axes_size(axes) if elementwise else 1 for axes in found]

    def urgency(factor: int) -> tuple[int, int, int, int]:
        size, index = sources[factor]
        return size, -splits[factor], index, factor

    return sorted(range(len(sizes)), key=urgency)


def _taken(tensor: TensorProjection, factor: int, axes: Axes, size: int, whole: Mesh | None) -> Axes:
    """The axes a tensor takes for a factor, or none if that is no more than it has."""
    said = tensor.factors.get(factor)
    if said is None or not axes:
        return ()
    within = truncate_within(axes, tensor, said, size)
    if whole is not None:
        within = whole_prefix(within, whole)
    if not is_strict_prefix(said.axes, within):
        return ()
    across = truncate_across(within, tensor.factors, factor)
    return across if whole is None else whole_prefix(across, whole)


def _no_more_than_results(results: Sequence[TensorProjection], factor: int, axes: Axes) -> Axes:
    """An elementwise op's operands are split no further than its results, else all of them would be gathered."""
    for result in results:
        said = result.factors.get(factor)
        if said is not None and is_strict_prefix(said.axes, axes):
            axes = said.axes
    return axes


def _expand(tensors: list[TensorProjection], changed: list[bool], index: int, factor: int, axes: Axes) -> None:
    if not axes:
        return
    tensor = tensors[index]
    said = tensor.factors[factor]
    if is_strict_prefix(said.axes, axes):
        tensors[index] = TensorProjection({**tensor.factors, factor: said._replace(axes=axes)}, tensor.blocked)
        changed[index] = True
