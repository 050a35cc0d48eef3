"""An op written anew with another operand: what the rewritings of `runtime.for_partitioner` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardwright.ir.context import ir

__all__ = ["remade"]


def remade(op: ir.Operation, operand: Any, type: ir.Type, attributes: Mapping[str, ir.Attribute]) -> Any:
    """The result, of this type, of an op like another one with other attributes, of one operand, with its regions."""
    made = ir.Operation.create(op.name, [type], [operand], dict(attributes), regions=len(op.regions), loc=op.location)
    copy = op.clone()
    for region, into in zip(copy.regions, made.regions, strict=True):
        while region.blocks:
            region.blocks[0].append_to(into)
    copy.erase()
    return made.results[0]
