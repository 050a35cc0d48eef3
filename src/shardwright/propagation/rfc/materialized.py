"""What is communicated around an op, as the mesh RFC's `materialize` puts it there.

An op that is split by an option takes its operands and gives its results in layouts that follow from it. Where values
are annotated otherwise, an operand is brought to the op, and a result from it.

Source: the mesh RFC on LLVM's forum, ShardingInterface and sharding materialization.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.ir.types import TensorType
from shardwright.reshard.plan import ReshardPlan, plan
from shardwright.sharding import TensorSharding

__all__ = ["Materialized", "materialized"]


@dataclass(frozen=True, slots=True)
class Materialized:
    """An op with all that is sent for it.

    Attributes:
        operands: For each operand the plan from its annotation to where the op takes it.
        results: For each result the plan from where the op gives it to its annotation.
    """

    operands: tuple[ReshardPlan, ...]
    results: tuple[ReshardPlan, ...]

    @property
    def bytes_sent(self) -> float:
        """Bytes that a device sends."""
        return sum(one.cost.bytes_sent for one in (*self.operands, *self.results))

    def __str__(self) -> str:
        """A line for each step, such as `operand 0: all_gather`."""
        return "\n".join([*_lines("operand", self.operands), *_lines("result", self.results)]) or "nothing is sent"


def materialized(
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
    annotations: Sequence[TensorSharding | None],
    layouts: Sequence[TensorSharding],
) -> Materialized:
    """What leads from annotations to the layouts of an op, and from these to annotations.

    Arguments:
        operands: Their types.
        results: Their types.
        annotations: For each operand, then for each result, how it lies outside; `None` is as the op has it.
        layouts: The same of the op.

    Raises:
        ShardingError: a partial sum where the op gives none.
    """
    count = len(operands)
    types = (*operands, *results)
    plans = []
    for number, (type, outside, inside) in enumerate(zip(types, annotations, layouts, strict=True)):
        outside = inside if outside is None else outside.closed()
        before, after = (outside, inside) if number < count else (inside, outside)
        plans.append(plan(type.dims, type.bytes // max(1, type.elements), before, after, dtype=type.dtype))
    return Materialized(tuple(plans[:count]), tuple(plans[count:]))


def _lines(what: str, plans: Sequence[ReshardPlan]) -> Iterator[str]:
    for number, one in enumerate(plans):
        for step in one.steps:
            yield f"{what} {number}: {_name(type(step).__name__)}"


def _name(step: str) -> str:
    """`AllGather` as the ops are called: `all_gather`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in step).lstrip("_")
