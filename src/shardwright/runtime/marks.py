"""A per-device module for partitioners that cannot be skipped: values are marked `{manual}`, which they leave alone.

This is what JAX makes of the body of a `shard_map`. XLA for CPUs can be told not to partition; XLA for TPUs cannot, and
refuses `partition_id` in what it takes for a program of all devices.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir

__all__ = ["mark_manual"]

_SHARDING = "mhlo.sharding"
_MANUAL = "{manual}"
_LEFT = ("stablehlo.while",)
"""Ops that XLA's own propagation marks: what a loop carries is not what its op has, once constants are sunk into it."""


def mark_manual(module: ir.Module) -> None:
    """Mark all values of a module, in place: results of ops, arguments and results of functions."""
    with module.context:
        for view in module.body.operations:
            if view.operation.name == "func.func":
                _mark_boundary(view.operation)
                _mark_ops(view.operation)


def _mark_ops(op: ir.Operation) -> None:
    for region in op.regions:
        for block in region:
            for view in block:
                inner = view.operation
                if len(inner.results) and inner.name not in _LEFT:
                    inner.attributes[_SHARDING] = ir.StringAttr.get(_sharding_of(len(inner.results)))
                _mark_ops(inner)


def _sharding_of(results: int) -> str:
    return _MANUAL if results == 1 else f"{{{', '.join([_MANUAL] * results)}}}"


def _mark_boundary(function: ir.Operation) -> None:
    types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for rows, count in (("arg_attrs", len(types.inputs)), ("res_attrs", len(types.results))):
        known: list[dict[str, ir.Attribute]] = [{} for _ in range(count)]
        if rows in function.attributes:
            given: Any = map(ir.DictAttr, ir.ArrayAttr(function.attributes[rows]))
            known = [{entry.name: entry.attr for entry in row} for row in given]
        marked = [ir.DictAttr.get({**row, _SHARDING: ir.StringAttr.get(_MANUAL)}) for row in known]
        function.attributes[rows] = ir.ArrayAttr.get(marked)
