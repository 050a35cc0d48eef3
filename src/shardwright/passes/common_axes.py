"""One split of an op's factors that all its tensors can be resharded to, chosen without regard to cost.

Of the ways in which tensors split a factor, and of all their major parts, the best is taken, again and again: that of
the largest tensors together, then of a factor that needs no communication, then of the largest tensor that is left,
then the one that splits furthest. What overlaps it gives way. Axes chosen for a factor that must stay whole go to
factors that all tensors have, where they divide them.

Here every dimension is one factor. Source: the pass insert-explicit-reshards of OpenXLA's Shardy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardwright.axes import Axes, AxisRef, axes_size, can_coexist, is_prefix
from shardwright.propagation.engine.projection import extend_axes
from shardwright.rules.rule import ShardingRule, TensorMapping

__all__ = ["Split", "common_axes", "without_overlap"]

Split = Mapping[int, Axes]
"""Factor → the axes that one tensor splits it by, for the factors that the tensor has."""


def common_axes(rule: ShardingRule, splits: Sequence[Split], elements: Sequence[int]) -> list[Axes]:
    """The axes to split each factor by.

    Arguments:
        rule: The op's rule; every dimension is one factor.
        splits: How each tensor is split, operands first.
        elements: How many elements each has.
    """
    tensors = [number for number, mapping in enumerate(rule.operands + rule.results) if mapping]
    if len(tensors) == 2 and not rule.need_replication:
        first, second = tensors
        if _preference(rule, splits[first], elements[first]) < _preference(rule, splits[second], elements[second]):
            first, second = second, first
        return _of_two(rule, splits[first], splits[second])
    chosen = _Choice(rule, splits, elements).run()
    for factor in sorted(rule.need_replication):
        axes, chosen[factor] = chosen[factor], ()
        if all(factor in splits[number] for number in tensors):
            _distribute(axes, _batching(rule), rule.sizes, chosen)
    return chosen


def _preference(rule: ShardingRule, split: Split, elements: int) -> tuple[bool, int, int]:
    moves = any(axes for factor, axes in split.items() if factor in rule.permutation)
    return not moves, elements, axes_size([axis for axes in split.values() for axis in axes])


def _of_two(rule: ShardingRule, preferred: Split, other: Split) -> list[Axes]:
    """What one tensor says; of factors that only the other has, what is left of its axes."""
    taken = [axis for axes in preferred.values() for axis in axes]
    return [
        preferred[factor] if factor in preferred else without_overlap(other.get(factor, ()), taken)
        for factor in range(len(rule.sizes))
    ]


def _batching(rule: ShardingRule) -> list[int]:
    """The factors that every tensor but scalars has, and that need no communication."""
    mappings = [mapping for mapping in rule.operands + rule.results if mapping]
    return [factor for factor in sorted(rule.pass_through) if all((factor,) in mapping for mapping in mappings)]


def _distribute(axes: Axes, factors: Sequence[int], sizes: Sequence[int], chosen: list[Axes]) -> None:
    rest = list(axes)
    for factor in factors:
        ways = axes_size(chosen[factor])
        if not sizes[factor] or sizes[factor] % ways:
            continue
        room = sizes[factor] // ways
        while rest and room % rest[0].size == 0:
            axis = rest.pop(0)
            room //= axis.size
            chosen[factor] = extend_axes(chosen[factor], (axis,))


@dataclass(slots=True)
class _Candidate:
    """A way to split a factor.

    Attributes:
        factor: The factor.
        axes: The axes.
        ways: How much further than now it splits.
        elements: Those of the tensors that say so.
        largest: How many elements a device has now of the largest tensor that has the factor.
    """

    factor: int
    axes: Axes
    ways: int
    elements: int
    largest: int = 0

    def rank(self, rule: ShardingRule) -> tuple[int, int, int, int, int, int, Axes]:
        precedence = _precedence(rule, self.factor)
        return self.elements, precedence, self.largest, self.ways, self.factor, len(self.axes), self.axes


def _elements(factor: int, part: Axes, splits: Sequence[Split], elements: Sequence[int]) -> int:
    """How many elements the tensors have that split a factor by axes of which `part` is the major part."""
    return sum(
        count
        for split, count in zip(splits, elements, strict=True)
        if factor in split and is_prefix(part, split[factor])
    )


def _precedence(rule: ShardingRule, factor: int) -> int:
    if factor in rule.need_replication:
        return 0
    return 1 if factor in rule.permutation else 2 if factor in rule.reduction else 3


class _Choice:
    """The candidates that are left, and the axes chosen so far."""

    def __init__(self, rule: ShardingRule, splits: Sequence[Split], elements: Sequence[int]) -> None:
        self.rule = rule
        self.mappings: tuple[TensorMapping, ...] = rule.operands + rule.results
        self.elements = elements
        self.chosen: list[Axes] = [()] * len(rule.sizes)
        parts = {
            (factor, axes[:length]): None
            for split in splits
            for factor, axes in split.items()
            for length in range(len(axes), 0, -1)
        }
        self.candidates = [
            _Candidate(factor, part, axes_size(part), _elements(factor, part, splits, elements))
            for factor, part in parts
        ]
        self._measure()

    def run(self) -> list[Axes]:
        while self.candidates:
            best = max(self.candidates, key=lambda candidate: candidate.rank(self.rule))
            factor, axes = best.factor, best.axes
            self.chosen[factor] = axes
            self.candidates = [left for left in self.candidates if self._is_left(left, factor, axes)]
            self._measure()
        return self.chosen

    def _is_left(self, candidate: _Candidate, factor: int, axes: Axes) -> bool:
        """Whether a candidate still adds something; it gives up what overlaps the axes just chosen for a factor."""
        now = self.chosen[candidate.factor]
        if candidate.factor == factor:
            candidate.ways = axes_size(candidate.axes) // axes_size(axes)
            return candidate.axes != axes and is_prefix(axes, candidate.axes)
        kept = without_overlap(candidate.axes, axes)
        # One that gives nothing up counts all its ways again, those of the axes chosen before too: so in Shardy.
        candidate.ways = axes_size(kept) // (axes_size(now) if kept != candidate.axes else 1)
        candidate.axes = kept
        return kept != now

    def _measure(self) -> None:
        """Count again what a device has of the largest tensor with each candidate's factor."""
        local = []
        for mapping, count in zip(self.mappings, self.elements, strict=True):
            for (factor,) in mapping:
                count //= axes_size(self.chosen[factor])
            local.append(count)
        for candidate in self.candidates:
            candidate.largest = max(
                count for mapping, count in zip(self.mappings, local, strict=True) if (candidate.factor,) in mapping
            )


def without_overlap(axes: Axes, taken: Sequence[AxisRef]) -> Axes:
    """The longest major part of `axes` that overlaps nothing that is taken."""
    kept: list[AxisRef] = []
    for axis in axes:
        starts = [other.pre for other in taken if axis.overlaps(other)]
        fits = all(can_coexist(axis, other) for other in taken)
        if fits and not starts:
            kept.append(axis)
            continue
        if fits and min(starts) > axis.pre:
            kept.append(AxisRef(axis.name, axis.pre, min(starts) // axis.pre))
        break
    return tuple(kept)
