"""The grids of a module: `shard.grid`, and the mesh and cluster ops it was called before."""

from __future__ import annotations

from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.attributes import decode
from shardwright.ir.context import ir
from shardwright.ir.locations import read_location
from shardwright.mesh import Mesh

__all__ = ["grids"]

_SIZES = {"shard.grid": "shape", "mesh.mesh": "shape", "mesh.cluster": "dim_sizes"}
"""Where each op keeps the sizes of its axes."""


def grids(module: ir.Module) -> dict[str, Mesh]:
    """The grids that ops at the top of `module` define, by symbol.

    Axes are called `axis_0`, `axis_1`, …, or as the attribute `axis_names` says. Devices are counted row-major.

    Raises:
        ShardingError: a grid of unknown size or without axes, a name twice, or names that are not one an axis.

    Source: MLIR's shard dialect page, GridOp; the mesh RFC on LLVM's forum, mesh.cluster.
    """
    meshes: dict[str, Mesh] = {}
    for view in module.body.operations:
        op = view.operation
        if op.name in _SIZES:
            mesh = _grid(op)
            if mesh.name in meshes:
                raise _error(op, f"grid @{mesh.name} is defined twice", remedy="give every grid its own name")
            meshes[mesh.name] = mesh
    return meshes


def _grid(op: Any) -> Mesh:
    symbol = _attribute(op, "sym_name", "")
    if not isinstance(symbol, str) or not symbol:
        raise _error(op, "a grid without a name", remedy='give it one: sym_name = "g"')
    sizes = _attribute(op, _SIZES[op.name], ())
    if not isinstance(sizes, tuple) or not all(isinstance(size, int) for size in sizes):
        raise _error(op, f"the shape of grid @{symbol} is no list of sizes", remedy="shape = array<i64: 2, 4>")
    rank = _attribute(op, "rank", len(sizes))
    if not sizes or rank != len(sizes) or min(sizes) < 1:
        raise _error(
            op,
            f"grid @{symbol} has no known number of devices along every axis",
            cause=f"its shape is {'x'.join(str(size) if size > 0 else '?' for size in sizes) or 'empty'}",
            remedy="a per-device program runs on a grid of known size: give a size to every axis",
        )
    names = _attribute(op, "axis_names", tuple(f"axis_{number}" for number in range(len(sizes))))
    if not isinstance(names, tuple) or len(names) != len(sizes) or not all(isinstance(name, str) for name in names):
        raise _error(op, f"grid @{symbol} has {len(sizes)} axes", cause=f"axis_names = {names}", remedy="name each")
    try:
        return Mesh(zip(names, sizes, strict=True), name=symbol)
    except ShardingError as error:
        raise error.replaced(op=op.name, location=str(read_location(str(op.location)))) from None


def _attribute(op: Any, name: str, default: Any) -> Any:
    return decode(str(op.attributes[name])) if name in op.attributes else default


def _error(op: Any, message: str, cause: str = "", remedy: str = "") -> ShardingError:
    return ShardingError(message, op=op.name, location=str(read_location(str(op.location))), cause=cause, remedy=remedy)
