"""`sdy-sharding-group-import`: groups that share a value become one, numbered 0, 1, …, with no value in one twice.

A group's values have one shape and stand in the same manual computation, or all in none.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.passes.attached import error_at, operations
from shardwright.passes.registry import Options, register

__all__ = ["sharding_group_import"]

_GROUP = "sdy.sharding_group"
_ID = "group_id"


@register("sdy-sharding-group-import", "Canonicalizes and validates sharding groups.")
def sharding_group_import(module: ir.Module, options: Options) -> None:
    """Unite the sharding groups of a module.

    Raises:
        ShardingError: values of one group of different shapes, or on both sides of a manual computation's boundary.
    """
    ops = [op for op in operations(module) if op.name == _GROUP]
    _validate(ops)
    of_value: dict[Any, list[Any]] = {}
    for op in ops:
        of_value.setdefault(op.operands[0], []).append(op)
    groups = _Groups()
    for members in of_value.values():
        for op in members:
            groups.unite(_number(members[0]), _number(op))
    numbers = groups.numbers()
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
        if parent.operation.name == "sdy.manual_computation":
            return parent.operation
        parent = parent.operation.parent
    return None


class _Groups:
    """Groups united; one is led by the group that others were united with."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}

    def unite(self, one: int, other: int) -> None:
        one, other = self._leader(one), self._leader(other)
        self._leaders[other] = one

    def numbers(self) -> dict[int, int]:
        """The number of every group, by the order in which leaders were seen."""
        leaders = [group for group, leader in self._leaders.items() if group == leader]
        order = {group: index for index, group in enumerate(leaders)}
        return {group: order[self._leader(group)] for group in self._leaders}

    def _leader(self, group: int) -> int:
        self._leaders.setdefault(group, group)
        while self._leaders[group] != group:
            self._leaders[group] = self._leaders[self._leaders[group]]
            group = self._leaders[group]
        return group
