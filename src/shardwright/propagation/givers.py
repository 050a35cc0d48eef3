"""Which operand or result gave an axis to which, in one recorded step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, AxisRef, can_coexist, subtract_axes
from shardwright.propagation.engine.compatible import prefix_status
from shardwright.propagation.engine.projection import TensorProjection
from shardwright.propagation.engine.step import Outcome, outcome
from shardwright.propagation.recording import RecordedStep

__all__ = ["OpTensor", "FactorGain", "fresh_axes", "new_axes", "parts", "result_of"]


@dataclass(frozen=True, slots=True, order=True)
class OpTensor:
    """An operand or a result of an op; operands sort first."""

    is_result: bool
    number: int

    def __str__(self) -> str:
        """`operand-1` or `result-0`."""
        return f"{'result' if self.is_result else 'operand'}-{self.number}"


@dataclass(frozen=True, slots=True)
class FactorGain:
    """What one factor of one tensor gained in a step.

    Attributes:
        tensor: The tensor, operands counted first.
        dim: Its dimension.
        factor: The factor.
        before: The factor's axes before.
        after: And after.
        source: The tensor that had them, if one had them all.
    """

    tensor: int
    dim: int
    factor: int
    before: Axes
    after: Axes
    source: int | None


def result_of(step: RecordedStep) -> Outcome:
    """What a recorded step did, by factor."""
    table = step.table
    result = outcome(
        table.rule, table.seen(step.key), table.directions, table.elementwise, table.strategy, table.conservative
    )
    assert result is not None, "a step that changed something had a mesh"
    return result


def parts(step: RecordedStep, result: Outcome) -> Iterator[FactorGain]:
    """What every factor of every tensor gained, in order of tensor and dimension."""
    rule = step.table.rule
    for tensor, mapping in enumerate(rule.operands + rule.results):
        before, after = result.before[tensor].factors, result.after[tensor].factors
        for dim, factors in enumerate(mapping):
            for factor in factors:
                if factor not in before or before[factor].axes == after[factor].axes:
                    continue
                source = _source(result.before, factor, after[factor].axes)
                yield FactorGain(tensor, dim, factor, before[factor].axes, after[factor].axes, source)


def _source(tensors: Sequence[TensorProjection], factor: int, axes: Axes) -> int | None:
    """The first tensor whose axes for a factor begin with `axes`."""
    for tensor, projection in enumerate(tensors):
        split = projection.factors.get(factor)
        if split is not None and prefix_status(axes, split.axes):
            return tensor
    return None


def fresh_axes(after: Axes, before: Axes) -> Axes:
    """The axes of one list that are not in another, or the parts of them; whole where parts have no common split.

    `w:(1)3` in the place of `w:(1)2` is fresh, for the two share no boundary but the first.
    """
    fresh: list[AxisRef] = []
    for axis in after:
        fresh += subtract_axes((axis,), before) if all(can_coexist(axis, other) for other in before) else (axis,)
    return tuple(fresh)


def new_axes(step: RecordedStep) -> list[tuple[AxisRef, OpTensor, OpTensor]]:
    """The `(axis, source, target)` of every axis that the step brought to a tensor, as Shardy counts them.

    Parts of one axis that came to neighbouring factors of a dimension count as the axis they make together.
    """
    result = result_of(step)
    count = len(step.table.rule.operands)
    gained: dict[int, dict[AxisRef, tuple[OpTensor, OpTensor]]] = {}
    place: tuple[int, int] | None = None
    previous: AxisRef | None = None
    for part in parts(step, result):
        if place != (part.tensor, part.dim):
            place, previous = (part.tensor, part.dim), None
        mine = gained.setdefault(part.tensor, {})
        last = part.after[-1]
        if previous is not None and previous.joins(last):
            mine.pop(previous, None)
            last = AxisRef(last.name, previous.pre, previous.size * last.size)
        previous = part.after[-1]
        if part.source is None:
            continue
        axes = (*part.after[:-1], last)
        index = len(part.before) - 1
        fresh = axes[len(part.before) :]
        if part.before and part.before[index] != axes[index]:
            fresh = (axes[index], *fresh)
        for axis in fresh:
            mine.setdefault(axis, (_node(part.source, count), _node(part.tensor, count)))
    return [(axis, *nodes) for _, mine in sorted(gained.items()) for axis, nodes in mine.items()]


def _node(tensor: int, operands: int) -> OpTensor:
    return OpTensor(tensor >= operands, tensor - operands if tensor >= operands else tensor)
