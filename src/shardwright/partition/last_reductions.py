"""Reductions that are not left to whoever reads a result: of what is partial by another kind than sum."""

from __future__ import annotations

from shardwright.cost.hardware import Hardware
from shardwright.ir.types import TensorType
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, ReduceScatter, Step, layouts_after

__all__ = ["layout_after", "to_last_reduction"]


def to_last_reduction(
    type: TensorType, layout: TensorSharding, target: TensorSharding, hardware: Hardware
) -> tuple[Step, ...]:
    """The way of a result to its target up to the last reduction: nothing stays partial by another kind than sum."""
    steps = plan(type.dims, type.bytes // max(1, type.elements), layout, target, hardware, dtype=type.dtype).steps
    last = max((n for n, step in enumerate(steps) if isinstance(step, AllReduce | ReduceScatter)), default=-1)
    return steps[: last + 1]


def layout_after(layout: TensorSharding, steps: tuple[Step, ...]) -> TensorSharding:
    """Where steps lead, if there are any."""
    return layouts_after(layout, steps)[-1] if steps else layout
