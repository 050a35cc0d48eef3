"""Basic propagation gives a factor's axes to all tensors of an op, or to none: which tensor would not have them."""

from __future__ import annotations

from shardwright.axes import Axes
from shardwright.propagation.engine.compatible import is_strict_prefix, truncate_across, truncate_within
from shardwright.propagation.engine.step import Strategy
from shardwright.propagation.explain.refusal import Case, Refusal

__all__ = ["objection"]


def objection(case: Case, names: list[str], target: int, factor: int) -> Refusal | None:
    """The tensor that kept axes from `target` which it could have taken itself; `None` if there is none.

    Arguments:
        case: The op.
        names: What users call its tensors.
        target: The tensor that lacks axes.
        factor: The factor for which it does.
    """
    if case.table.strategy is not Strategy.BASIC:
        return None
    own_axes = case.tensors[target].factors[factor].axes
    axes = case.agreed(factor)
    for tensor, name in enumerate(names):
        kept = _kept(case, tensor, factor, axes)
        if not is_strict_prefix(own_axes, kept):
            return Refusal("basic", f"{name} cannot take it, and all tensors of an op take an axis or none does")
        axes = kept
    return None


def _kept(case: Case, tensor: int, factor: int, axes: Axes) -> Axes:
    """What of `axes` a tensor leaves for all."""
    projection = case.tensors[tensor]
    axes = truncate_across(axes, projection.factors, factor)
    split = projection.factors.get(factor)
    return axes if split is None else truncate_within(axes, projection, split, case.table.rule.sizes[factor])
