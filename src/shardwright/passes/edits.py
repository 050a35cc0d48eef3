"""The changes of a module that passes are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.erasing import erase

__all__ = ["behind", "end_with", "put_behind", "replace_by", "terminator_of"]


def behind(value: Any) -> ir.InsertionPoint:
    """Just behind where a value comes to be."""
    if isinstance(value, ir.BlockArgument):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner)


def put_behind(value: Any, name: str, attributes: Mapping[str, Any], location: Any) -> Any:
    """A new op that reads a value, right behind that, and whose result all others read instead."""
    op = ir.Operation.create(
        name, results=[value.type], operands=[value], attributes=dict(attributes), loc=location, ip=behind(value)
    )
    value.replace_all_uses_except(op.results[0], op)
    return op


def replace_by(op: Any, values: Iterable[Any]) -> None:
    """Let other values be read in place of an op's results, and take it out of the module."""
    for result, value in zip(list(op.results), list(values), strict=True):
        result.replace_all_uses_with(value)
    erase(op)


def terminator_of(block: Any) -> Any:
    """The last op of a block."""
    return block.operations[len(block.operations) - 1].operation


def end_with(block: Any, name: str) -> None:
    """Let a block end with another op, which returns the same."""
    old = terminator_of(block)
    ir.Operation.create(name, operands=list(old.operands), loc=old.location, ip=ir.InsertionPoint(old))
    erase(old)
