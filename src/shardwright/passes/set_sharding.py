"""Attaching a sharding to a value of a module: where it is written, by what makes the value."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.ops import COMPUTATIONS
from shardwright.passes.attached import (
    ARGUMENTS,
    SHARDING,
    Shardings,
    per_value,
    rows_of,
    set_rows,
    single,
)
from shardwright.passes.function_shardings import unsaid
from shardwright.sharding import TensorSharding

__all__ = ["can_say", "set_sharding"]

_FUNCTION = "func.func"
_WHILE = "stablehlo.while"


def can_say(value: Any) -> bool:
    """Whether a sharding can be attached to a value: not to arguments of regions such as that of a reduction."""
    return isinstance(value, ir.OpResult) or value.owner.owner.operation.name in (_FUNCTION, _WHILE, *COMPUTATIONS)


def set_sharding(value: Any, sharding: TensorSharding, shardings: Shardings) -> None:
    """Attach a sharding to a value that can have one and that has no edge; other results of its op are open then."""
    if isinstance(value, ir.OpResult):
        op = value.owner.operation
        name = "out_shardings" if op.name in COMPUTATIONS else SHARDING
        _set_one(op, name, list(op.results), value.result_number, sharding, shardings)
        return
    op, index = value.owner.owner.operation, value.arg_number
    if op.name == _FUNCTION:
        rows = rows_of(op, ARGUMENTS)
        rows[index][SHARDING] = single(sharding)
        set_rows(op, ARGUMENTS, rows)
    elif op.name == _WHILE:
        set_sharding(op.results[index], sharding, shardings)
    else:
        _set_one(op, "in_shardings", list(op.operands), index, sharding, shardings)


def _set_one(op: Any, name: str, values: list[Any], index: int, sharding: TensorSharding, shardings: Shardings) -> None:
    """Say the sharding of one of several values in the attribute for all of them."""
    if name in op.attributes:
        said = list(shardings.read(op.attributes[name]))
    else:
        said = [unsaid(sharding.mesh, value.type, open=True) for value in values]
    said[index] = sharding
    op.attributes[name] = per_value(said)
