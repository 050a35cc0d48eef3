"""Ops of the `shard` dialect as handles: which there are, what they name, and what they read that is known.

Source: MLIR's `shard` dialect. Its ops have neither effects nor state, but for `send` and `recv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.notation.shard.read import DYNAMIC
from shardwright.passes.module_ops import operations, symbol_of

__all__ = [
    "GRIDS",
    "axes_of",
    "dialect_of",
    "erase_dead",
    "grid_of",
    "grids",
    "index_constant",
    "is_free",
    "known",
    "shard_ops",
]

GRIDS = {"shard": "grid", "mesh": "mesh"}
"""The dialect's names, upstream's of today first, and what each calls a grid in attributes."""

_SUMS = frozenset(("all_reduce", "reduce", "reduce_scatter"))
_MOVES = frozenset(("all_gather", "all_slice", "all_to_all", "broadcast", "gather", "scatter", "shift"))
_INDICES = frozenset(("neighbors_linear_indices", "process_linear_index", "process_multi_index"))
_SIZES = frozenset(("grid_shape", "mesh_shape", "shard_shape"))
_SAYS = frozenset(("get_sharding", "shard", "sharding"))

_FREE = _SUMS | _MOVES | _INDICES | _SIZES | _SAYS | {"update_halo"}


def dialect_of(op: Any) -> str | None:
    """By which of its names an op is of the dialect; `None` of other ops."""
    dialect = str(op.name).partition(".")[0]
    return dialect if dialect in GRIDS else None


def known(op: Any) -> str:
    """The name of an op of the dialect without that of the dialect; nothing of other ops."""
    return str(op.name).partition(".")[2] if dialect_of(op) else ""


def is_free(op: Any) -> bool:
    """Whether an op of the dialect does nothing but compute its results."""
    return known(op) in _FREE


def shard_ops(root: Any) -> Iterator[Any]:
    """The ops of the dialect within an op, in program order."""
    return (op for op in operations(root) if dialect_of(op))


def axes_of(op: Any) -> tuple[int, ...]:
    """The grid axes that an op names, in order."""
    axes = op.attributes.get(f"{GRIDS[dialect_of(op) or 'shard']}_axes", op.attributes.get("axes"))
    return () if axes is None else tuple(ir.DenseI16ArrayAttr(axes))


def grid_of(op: Any) -> str:
    """The name of the grid that an op names."""
    return str(ir.FlatSymbolRefAttr(op.attributes[GRIDS[dialect_of(op) or "shard"]]).value)


def grids(module: ir.Module) -> dict[str, tuple[int | None, ...]]:
    """The sizes of the axes of every grid, by name; `None` of those that are known at run time only."""
    found: dict[str, tuple[int | None, ...]] = {}
    for view in module.body.operations:
        op = view.operation
        if op.name in ("shard.grid", "mesh.mesh", "mesh.grid") and "shape" in op.attributes:
            sizes = ir.DenseI64ArrayAttr(op.attributes["shape"])
            found[symbol_of(op)] = tuple([None if size == DYNAMIC else size for size in sizes])
    return found


def index_constant(number: int, at: Any, location: Any) -> Any:
    """A new constant of type `index` at an insertion point."""
    type = ir.IndexType.get(context=context())
    attributes: dict[str, ir.Attribute] = {"value": ir.IntegerAttr.get(type, number)}
    return ir.Operation.create("arith.constant", results=[type], attributes=attributes, loc=location, ip=at).results[0]


def erase_dead(ops: Sequence[Any], is_dead: Callable[[Any], bool]) -> bool:
    """Take out ops that nothing reads and of which it may be, the last ones first; whether there were any."""
    dead = False
    for op in reversed(ops):
        if is_dead(op) and not any(next(iter(result.uses), None) for result in op.results):
            erase(op)
            dead = True
    return dead
