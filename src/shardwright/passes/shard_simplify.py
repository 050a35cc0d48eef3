"""`-shard-simplify`: all_reduces behind what adds up two of them, and sizes of grids that are known.

    addf (all_reduce %a), (all_reduce %b)  →  all_reduce (addf %a, %b)     each read by nothing else, alike in all
    grid_shape @g axes = [0, 1]            →  constants; of sizes known at run time only a smaller grid_shape

Sums go with `addf` and `addi`, minima and maxima with what keeps a NaN and with those of integers. Upstream has it as a
function that other passes call, and tests it by `-test-grid-simplifications`, which is a name of it here.

Source: MLIR's `shard` dialect, `Transforms/Simplifications`.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import context, ir
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import operations
from shardwright.passes.registry import Options, register
from shardwright.passes.shard_dialect import (
    GRIDS,
    axes_of,
    dialect_of,
    erase_dead,
    grid_of,
    grids,
    index_constant,
    is_free,
    known,
    shard_ops,
)
from shardwright.passes.upstream import clean

__all__: list[str] = []

_KINDS = {
    "arith.addf": "sum",
    "arith.addi": "sum",
    "arith.maximumf": "max",
    "arith.maxsi": "max",
    "arith.maxui": "max",
    "arith.minimumf": "min",
    "arith.minsi": "min",
    "arith.minui": "min",
}
"""Ops that may be computed before devices reduce, and the kind of reduction."""

_DOC = "Reduces behind what adds up two reductions, and writes sizes of grids that are known."


@register("shard-simplify", _DOC)
@register("test-grid-simplifications", "The same as -shard-simplify, by the name of upstream's test.")
def shard_simplify(module: ir.Module, options: Options) -> None:
    """Simplify until nothing is left to be."""
    sizes = grids(module)
    while sum(map(_reduced_late, [op for op in operations(module) if op.name in _KINDS])):
        pass  # what was made may be one of two that are added up
    for op in list(shard_ops(module.operation)):
        if known(op) in ("grid_shape", "mesh_shape"):
            _with_constants(op, sizes.get(grid_of(op), ()))
    clean(module)


def _reduced_late(op: Any) -> bool:
    """Add up first, and reduce that."""
    if len(op.operands) != 2 or any(isinstance(value, ir.BlockArgument) for value in op.operands):
        return False
    makers = [value.owner.operation for value in op.operands]
    if not all(known(maker) == "all_reduce" and len(list(maker.results[0].uses)) == 1 for maker in makers):
        return False
    one, other = makers
    attributes = dict(one.attributes.items())
    type = op.results[0].type
    if _kind_of(one) != _KINDS[op.name] or attributes != dict(other.attributes.items()) or one.name != other.name:
        return False
    if any(maker.operands[0].type != type for maker in makers):
        return False
    at = ir.InsertionPoint(op)
    added = ir.Operation.create(
        op.name,
        results=[type],
        operands=[maker.operands[0] for maker in makers],
        attributes=dict(op.attributes.items()),
        loc=op.location,
        ip=at,
    )
    reduced = ir.Operation.create(
        one.name, results=[type], operands=[added.results[0]], attributes=attributes, loc=op.location, ip=at
    )
    replace_by(op, reduced.results)
    erase_dead(makers, is_free)
    return True


def _kind_of(reduce: Any) -> str:
    """The kind of a reduction: a sum where none is told."""
    kind = str(reduce.attributes["reduction"]) if "reduction" in reduce.attributes else "sum"
    return kind.rstrip(">").rpartition("<")[2].rpartition(" ")[2]


def _with_constants(op: Any, sizes: tuple[int | None, ...]) -> None:
    """Let sizes that are known be read in place of the op's results."""
    axes = axes_of(op) or tuple(range(len(sizes)))
    unknown = [axis for axis in axes if sizes[axis] is None]
    if not sizes or len(unknown) == len(axes):
        return
    at, dialect = ir.InsertionPoint(op), dialect_of(op) or "shard"
    left = iter(())
    if unknown:
        attributes = {
            GRIDS[dialect]: op.attributes[GRIDS[dialect]],
            "axes": ir.DenseI16ArrayAttr.get(unknown, context=context()),
        }
        types = [op.results[0].type] * len(unknown)
        made = ir.Operation.create(op.name, results=types, attributes=attributes, loc=op.location, ip=at)
        left = iter(made.results)
    values = [
        next(left) if size is None else index_constant(size, at, op.location) for size in (sizes[axis] for axis in axes)
    ]
    replace_by(op, values)
