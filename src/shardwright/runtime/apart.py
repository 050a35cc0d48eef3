"""Collectives of several tensors, one for each tensor, where XLA's partitioner sees the program of a device.

The partitioner leaves alone what is marked as manual, but an `all_reduce` of several operands fails a check of it in
such a program, and sharding that says `{manual}` of each of several results fails one before it. XLA's combiners put
back together what they find worth it.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.walk import every_op
from shardwright.runtime.remade import remade

__all__ = ["take_apart"]

_OF_SEVERAL = frozenset({"stablehlo.all_gather", "stablehlo.all_reduce", "stablehlo.all_to_all"})
_CHANNEL = "channel_handle"
_HANDLE = re.compile(r"handle = (\d+),")


def take_apart(module: ir.Module) -> None:
    """Replace each collective of several tensors of a per-device module by one of each, in place."""
    every = every_op(module.operation)
    found = [op for op in every if op.name in _OF_SEVERAL and len(op.results) > 1]
    if not found:
        return
    channels = count(1 + max((_channel(op) for op in every if _CHANNEL in op.attributes), default=0))
    for op in found:
        for operand, result in zip(op.operands, op.results, strict=True):
            with ir.InsertionPoint(op):
                one = _of_one(op, operand, result, next(channels))
            result.replace_all_uses_with(one)
        op.erase()


def _of_one(op: ir.Operation, operand: Any, result: Any, channel: int) -> Any:
    """What a collective makes of one of its operands; the channel tells it from others where it has one."""
    attributes = dict(op.attributes.items())
    if _CHANNEL in attributes:
        text = _HANDLE.sub(f"handle = {channel},", str(attributes[_CHANNEL]))
        attributes[_CHANNEL] = ir.Attribute.parse(text, op.context)
    return remade(op, operand, result.type, attributes)


def _channel(op: ir.Operation) -> int:
    found = _HANDLE.search(str(op.attributes[_CHANNEL]))
    assert found, "a channel has a number"
    return int(found[1])
