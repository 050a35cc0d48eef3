"""A step in which one tensor of the op is followed: where factors want the same axis, its own come first.

Where the aggressive step decides by size and position, each tensor that has axes is another way to decide. For
`dot(lhs: ik, rhs: kj) -> ij` with `i` split by `x` in lhs and `j` split by `x` in rhs, the result takes `i` where lhs
is followed, and `j` where rhs is. So it is where tensors contradict each other along one factor, of which the
aggressive step follows none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwright.axes import Axes
from shardwright.mesh import Mesh
from shardwright.propagation.engine.aggressive import (
    expand,
    no_more_than_results,
    order_of_factors,
    propagate_aggressive,
    taken,
)
from shardwright.propagation.engine.compatible import Direction, compatible_axes, prefix_status
from shardwright.propagation.engine.projection import TensorProjection

__all__ = ["Preferred", "propagate_anyhow", "propagate_preferring"]

_Tensors = Sequence[TensorProjection]


class Preferred(NamedTuple):
    """The way to settle conflicts in which a tensor of the op is followed, operands counted first."""

    tensor: int


def propagate_anyhow(
    operands: _Tensors,
    results: _Tensors,
    sizes: tuple[int, ...],
    directions: tuple[Direction, ...],
    elementwise: bool,
    whole: Mesh | None = None,
) -> tuple[list[TensorProjection], list[bool]]:
    """The aggressive step or, where that changes nothing, the first that follows a tensor and does."""
    after, changed = propagate_aggressive(operands, results, sizes, directions, elementwise, whole)
    for tensor in range(len(after)):
        if True in changed:
            break
        after, changed = propagate_preferring(
            Preferred(tensor), operands, results, sizes, directions, elementwise, whole
        )
    return after, changed


def propagate_preferring(
    preferred: Preferred,
    operands: _Tensors,
    results: _Tensors,
    sizes: tuple[int, ...],
    directions: tuple[Direction, ...],
    elementwise: bool,
    whole: Mesh | None = None,
) -> tuple[list[TensorProjection], list[bool]]:
    """One step through an op, as the aggressive one but that a tensor is followed."""
    tensors, count = [*operands, *results], len(operands)
    changed = [False] * len(tensors)
    followed = {factor: split.axes for factor, split in tensors[preferred.tensor].factors.items() if split.axes}
    side = Direction.FORWARD if preferred.tensor < count else Direction.BACKWARD
    compatible: list[Axes] = []
    for factor, direction in enumerate(directions):
        axes, own = compatible_axes(operands, results, factor, direction), followed.get(factor, ())
        compatible.append(axes if prefix_status(own, axes) or not direction & side else own)
    rest = order_of_factors(tensors, sizes, compatible, elementwise)
    for factor in dict.fromkeys((*followed, *rest)):
        for index in (*range(count, len(tensors)), *range(count)):
            axes = taken(tensors[index], factor, compatible[factor], sizes[factor], whole)
            if axes and elementwise and index < count:
                axes = no_more_than_results(tensors[count:], factor, axes)
            expand(tensors, changed, index, factor, axes)
    return tensors, changed
