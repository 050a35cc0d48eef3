"""Handles of a module: its ops and functions, and what arguments and results of functions have for attributes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir
from shardwright.ir.locations import read_location
from shardwright.ir.walk import walk
from shardwright.notation.sdy.attributes import parse_manual_axes
from shardwright.propagation.working import EDGE

__all__ = [
    "ARGUMENTS",
    "MANUAL_AXES",
    "RESULTS",
    "Row",
    "change_rows",
    "drop_attributes",
    "edge_of",
    "error_at",
    "first_results",
    "functions",
    "manual_axes_of",
    "operations",
    "returned_by",
    "rows_of",
    "set_rows",
    "static_shape",
    "symbol_of",
    "types_of",
]

MANUAL_AXES = "manual_axes"

ARGUMENTS, RESULTS = "arg_attrs", "res_attrs"
"""The attributes of a function that hold those of its arguments and results."""

Row = dict[str, Any]
"""The attributes of an argument or result of a function."""


def operations(root: Any, *, inner_first: bool = False, without: Collection[Any] = ()) -> list[Any]:
    """The ops within `root` and `root` itself, in program order: an op before what its regions hold, or after.

    Ops `without` which the answer is to be are left out; with what their regions hold, where outer ops come first.
    """
    ops: list[Any] = []

    def visit(op: Any) -> Any:
        if op in without:
            return ir.WalkResult.SKIP
        ops.append(op)
        return ir.WalkResult.ADVANCE

    walk(root.operation, visit, outer_first=not inner_first)
    return ops


def functions(module: ir.Module) -> list[Any]:
    """The functions of a module, in order."""
    return [view.operation for view in module.body.operations if view.operation.name == "func.func"]


def symbol_of(op: Any) -> str:
    """The name of a function or mesh."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def rows_of(function: Any, which: str) -> list[Row]:
    """The attributes of every argument or result of a function."""
    attribute = function.attributes.get(which)
    if attribute is not None:
        return [{named.name: named.attr for named in row} for row in _dictionaries(attribute)]
    return [{} for _ in types_of(function, which)]


def types_of(function: Any, which: str) -> list[Any]:
    """The types of a function's arguments or results."""
    type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(type.inputs if which == ARGUMENTS else type.results)


def _dictionaries(array: Any) -> list[Any]:
    return [ir.DictAttr(row) for row in ir.ArrayAttr(array)]


def set_rows(function: Any, which: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Give every argument or result of a function its attributes."""
    if any(rows):
        listed = [ir.DictAttr.get(dict(row), context=context()) for row in rows]
        function.attributes[which] = ir.ArrayAttr.get(listed, context=context())
    elif which in function.attributes:
        del function.attributes[which]


def change_rows(function: Any, change: Callable[[Row, Any], None]) -> None:
    """Change the attributes of arguments and results of a function; `change` is given those of one, and its type."""
    for which in (ARGUMENTS, RESULTS):
        if which in function.attributes:
            rows = rows_of(function, which)
            for row, type in zip(rows, types_of(function, which), strict=True):
                change(row, type)
            set_rows(function, which, rows)


def drop_attributes(module: ir.Module, names: Sequence[str]) -> None:
    """Take attributes of these names from all ops, and from arguments and results of functions."""

    def drop(row: Row, type: Any) -> None:
        for name in names:
            row.pop(name, None)

    for op in operations(module):
        if op.name == "func.func":
            change_rows(op, drop)
        for name in names:
            if name in op.attributes:
                del op.attributes[name]


def static_shape(type: Any) -> tuple[int, ...] | None:
    """The shape of a ranked tensor type, in elements, where all of it is known."""
    if isinstance(type, ir.ShapedType) and type.has_rank and type.has_static_shape:
        return tuple(type.shape)
    return None


def returned_by(function: Any) -> list[Any]:
    """What a function returns; nothing for one without a body."""
    blocks = list(function.regions[0].blocks)
    if not blocks:
        return []
    last = blocks[-1].operations[len(blocks[-1].operations) - 1].operation
    return list(last.operands) if last.name == "func.return" else []


def first_results(function: Any) -> list[tuple[int, Any]]:
    """Of each value that a function returns, the result that is first among its uses as MLIR lists them, and the value.

    Shardy tells of the origins of a value that is returned several times on that result alone.
    """
    firsts: list[tuple[int, Any]] = []
    for index, value in enumerate(returned_by(function)):
        first = next(use for use in value.uses if use.owner.operation.name == "func.return")
        if first.operand_number == index:
            firsts.append((index, value))
    return firsts


def error_at(op: Any, message: str, *, cause: str = "", remedy: str = "") -> ShardingError:
    """An error that stands at an op."""
    place = read_location(str(op.location))
    where = f"{place.file}:{place.line}:{place.column}" if place.file else place.name
    return ShardingError(message, op=op.name, location=where, cause=cause, remedy=remedy)


def manual_axes_of(op: Any) -> tuple[str, ...]:
    """The axes that a computation is manual in; none for one that is not."""
    attribute = op.attributes.get(MANUAL_AXES)
    return () if attribute is None else parse_manual_axes(str(attribute))


def edge_of(value: Any, name: str = EDGE) -> Any | None:
    """The edge of which `value` is the owner."""
    for use in value.uses:
        if use.owner.operation.name == name:
            return use.owner.operation
    return None
