"""`sdy-sharding-group-import`: groups that share a value become one, numbered 0, 1, …, with no value in one twice.

A group's values have one shape and stand in the same manual computation, or all in none.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.ir.ops import MANUAL
from shardwright.passes.module_ops import error_at, operations
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.groups import united
from shardwright.propagation.working import GROUP

__all__ = ["sharding_group_import"]

_ID = "group_id"


@register("sdy-sharding-group-import", "Canonicalizes and validates sharding groups.")
def sharding_group_import(module: ir.Module, options: Options) -> None:
    """Unite the sharding groups of a module.

    Raises:
        ShardingError: values of one group of different shapes, or on both sides of a manual computation's boundary.
    """
    ops = [op for op in operations(module) if op.name == GROUP]
    _validate(ops)
    of_value: dict[Any, list[Any]] = {}
    for op in ops:
        of_value.setdefault(op.operands[0], []).append(op)
    numbers = united([[_number(op) for op in members] for members in of_value.values()])
    seen: set[tuple[Any, int]] = set()
    type = ir.IntegerType.get_signless(64, context=context())
    for value, members in of_value.items():
        for op in members:
            number = numbers[_number(op)]
            if (value, number) in seen:
                erase(op)
            else:
                seen.add((value, number))
                op.attributes[_ID] = ir.IntegerAttr.get(type, number)


def _number(op: Any) -> int:
    return int(op.attributes[_ID].value)


def _validate(ops: list[Any]) -> None:
    first: dict[int, tuple[Any, list[int]]] = {}
    for op in ops:
        number, shape = _number(op), list(op.operands[0].type.shape)
        computation = _manual_computation(op)
        before, its_shape = first.setdefault(number, (computation, shape))
        if not _same(before, computation):
            raise error_at(
                op,
                f"ShardingGroupOps values cannot cross ManualComputationOp boundaries for groupId: {number}",
                cause="another value of the group lies on the other side of the boundary",
                remedy="use another group inside the manual computation",
            )
        if its_shape != shape:
            raise error_at(
                op,
                f"ShardingGroupOps values must have the same shape for groupId: {number}",
                cause=f"one value of the group has the shape {its_shape}, this one {shape}",
                remedy="group values of one shape",
            )


def _same(one: Any, other: Any) -> bool:
    """Whether two ops are one, or neither is there; ops cannot be compared with `None`."""
    return one is other if one is None or other is None else bool(one == other)


def _manual_computation(op: Any) -> Any:
    """The manual computation that an op stands in, or `None`."""
    parent = op.parent
    while parent is not None:
        if parent.operation.name == MANUAL:
            return parent.operation
        parent = parent.operation.parent
    return None
