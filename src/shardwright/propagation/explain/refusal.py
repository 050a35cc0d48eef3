"""Why an axis that one tensor of an op has did not come to another, as propagation left them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, AxisRef
from shardwright.propagation.engine.compatible import Direction, compatible_axes, prefix_status, without_overlap
from shardwright.propagation.engine.conservative import whole_prefix
from shardwright.propagation.engine.projection import TensorProjection, project
from shardwright.propagation.engine.step import Shardings, common_mesh
from shardwright.propagation.engine.worklist import StepTable

__all__ = ["Case", "Refusal", "refusal"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason and its detail, as `Stop` has them; `at` is the dimension whose axes stand in the way, if one does."""

    reason: str
    detail: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """An op as propagation left it.

    Attributes:
        table: What the op does.
        shardings: The shardings of its operands and results.
        tensors: The same by factor.
    """

    table: StepTable
    shardings: Shardings
    tensors: tuple[TensorProjection, ...]

    @classmethod
    def of(cls, table: StepTable, key: Sequence[int]) -> Case:
        """The op of a table, at the numbers of its shardings."""
        shardings = table.seen(tuple(key))
        rule = table.rule
        mappings = rule.operands + rule.results
        projections = tuple(project(m, sharding, rule.sizes) for m, sharding in zip(mappings, shardings, strict=True))
        return cls(table, shardings, projections)

    @property
    def operands(self) -> int:
        """How many of the tensors are operands."""
        return len(self.table.rule.operands)

    def agreed(self, factor: int) -> Axes:
        """What all tensors agree on for a factor."""
        direction = self.table.directions[factor]
        return compatible_axes(self.tensors[: self.operands], self.tensors[self.operands :], factor, direction)


def refusal(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    """Why `target` has fewer axes for `factor` than `source`; `None` where it has them all."""
    source_axes = case.tensors[source].factors[factor].axes
    own = case.tensors[target].factors.get(factor)
    if own is None or prefix_status(source_axes, own.axes):
        return None
    for test in (_placement, _direction, _rivals, _within, _across, _rest):
        answer = test(case, source, target, factor)
        if answer is not None:
            return answer
    return None


def _placement(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    mesh = common_mesh(case.shardings)
    if mesh is None:
        return Refusal("mesh", "the op's tensors lie on different meshes")
    if mesh.is_maximal:
        return Refusal("mesh", "a mesh of one device does not propagate")
    return None


def _direction(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    rule, direction = case.table.rule, case.table.directions[factor]
    if factor in rule.blocked:
        return Refusal("blocked", "the op's rule lets no axes flow along this dimension")
    forward = source < case.operands <= target
    backward = target < case.operands <= source
    if direction is Direction.NONE or (direction is Direction.FORWARD and backward):
        return Refusal("barrier", "axes do not flow this way through the op")
    if direction is Direction.BACKWARD and forward:
        return Refusal("barrier", "axes do not flow this way through the op")
    return None


def _rivals(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    source_axes = case.tensors[source].factors[factor].axes
    own = case.tensors[target].factors[factor]
    if own.axes and not prefix_status(own.axes, source_axes):
        return Refusal(
            "conflict", f"the dimension is split by {_names(case, own.axes)} already", _dim(case, target, factor)
        )
    agreed = case.agreed(factor)
    if prefix_status(source_axes, agreed):
        return None
    for index, tensor in enumerate(case.tensors):
        other = tensor.factors.get(factor)
        if (
            other is not None
            and other.axes
            and not (prefix_status(other.axes, source_axes) or prefix_status(source_axes, other.axes))
        ):
            return Refusal("conflict", f"{_tensor(case, index)} is split by {_names(case, other.axes)} there")
    return None


def _within(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    axis, split = _next(case, source, target, factor)
    tensor, own = case.tensors[target], case.tensors[target].factors[factor]
    sharding = case.shardings[target]
    if sharding is not None:
        if without_overlap(axis, sharding.replicated) != axis:
            return Refusal("replicated", f"it is to be replicated along {_name(case, axis)}")
        if without_overlap(axis, sharding.partial_axes) != axis:
            return Refusal("unreduced", f"it awaits reduction along {_name(case, axis)}")
    if own.overflow or _overflows(case, target, factor):
        return Refusal("overflow", "axes that do not divide its loop come before")
    if own.closed:
        return Refusal("closed", "the dimension is closed", _dim(case, target, factor))
    size = case.table.rule.sizes[factor]
    if not own.minor_most and (size % split or math.gcd(size // split, axis.size) != axis.size):
        return Refusal("divisibility", f"{axis.size} does not divide the {size // split} elements left of its loop")
    return None if tensor.factors else Refusal("late", "it has no dimensions")


def _across(case: Case, source: int, target: int, factor: int) -> Refusal | None:
    axis, _ = _next(case, source, target, factor)
    for other, split in case.tensors[target].factors.items():
        if other != factor and without_overlap(axis, (*split.axes, *split.overflow)) != axis:
            dim = _dim(case, target, other)
            return Refusal("conflict", f"{_name(case, axis)} splits dimension {dim} of it", dim)
    return None


def _rest(case: Case, source: int, target: int, factor: int) -> Refusal:
    source_axes = case.tensors[source].factors[factor].axes
    if case.table.conservative:
        mesh = common_mesh(case.shardings)
        if mesh is not None and whole_prefix(source_axes, mesh) != source_axes:
            return Refusal("conservative", "only whole axes flow")
    if case.table.elementwise and target < case.operands:
        return Refusal("elementwise", "the op's operands are split no further than its result")
    mapping = (case.table.rule.operands + case.table.rule.results)[target]
    factors = mapping[_dim(case, target, factor)]
    if factors[0] != factor:
        return Refusal("strided", "what is major in the dimension is not split in full")
    return Refusal("late", "it came after the op's last visit, or what another tensor lacks keeps it back")


def _next(case: Case, source: int, target: int, factor: int) -> tuple[AxisRef, int]:
    """The first axis that the target lacks, and how many ways it is split before."""
    source_axes: tuple[AxisRef, ...] = case.tensors[source].factors[factor].axes
    own_axes = case.tensors[target].factors[factor].axes
    split = 1
    for index, axis in enumerate(source_axes):
        if index >= len(own_axes) or own_axes[index] != axis:
            return axis, split
        split *= axis.size
    return source_axes[-1], split


def _overflows(case: Case, target: int, factor: int) -> bool:
    """Whether a major factor of the same dimension overflows."""
    mapping = (case.table.rule.operands + case.table.rule.results)[target]
    factors = mapping[_dim(case, target, factor)]
    splits = case.tensors[target].factors
    major = factors[: factors.index(factor)]
    return any(other in splits and bool(splits[other].overflow) for other in major)


def _dim(case: Case, tensor: int, factor: int) -> int:
    mapping = (case.table.rule.operands + case.table.rule.results)[tensor]
    return next(dim for dim, factors in enumerate(mapping) if factor in factors)


def _tensor(case: Case, index: int) -> str:
    return f"operand {index}" if index < case.operands else f"result {index - case.operands}"


def _names(case: Case, axes: Axes) -> str:
    return "{" + ", ".join(_name(case, axis) for axis in axes) + "}"


def _name(case: Case, axis: AxisRef) -> str:
    """An axis as annotations write it: a part of one with its bounds."""
    mesh = common_mesh(case.shardings)
    return axis.name if mesh is None else mesh.axis_text(axis)
