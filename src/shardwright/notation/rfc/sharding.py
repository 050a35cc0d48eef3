"""One sharding in the form of the mesh RFC: `#mesh.shard<@mesh0, [[2, 0], [], [1]]>`.

Axes go by their position in the mesh, a list per dimension; the list one past the last dimension holds the axes along
which the tensor is a partial sum, so the rank must be known. Shards that do not divide are ceil-sized, as in the model.
(The RFC counts devices column-major, axis 0 fastest; positions in the mesh mean the same there as here.)

Source: the mesh dialect's RFC and the slides "Sharding Framework Design for Device Mesh", MeshShardingAttr.
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.notation.axis_positions import axes_at, layout, mesh_symbol, named, positions
from shardwright.notation.axis_scanner import CallScanner
from shardwright.notation.notation import Notation, Shape
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["KEYWORD", "PREFIX", "read_lists"]

PREFIX = "#mesh.shard<"
KEYWORD = re.compile(r"\b(partial|split_axes|halo_sizes|sharded_dims_offsets)\s*=")
"""What sets upstream's attribute apart from the RFC's, which begins with the same `PREFIX`."""


def read_lists(text: str) -> tuple[str | None, list[list[int]]]:
    """The mesh that `#mesh.shard<@m, [[0], [], [1]]>` names, as `@m`, and its lists, which may also stand alone.

    Raises:
        ShardingError: malformed text, at its column.
    """
    scan = CallScanner(text)
    symbol = None
    wrapped = text.startswith(PREFIX)
    if wrapped:
        for token in ("#", "mesh.shard", "<"):
            scan.take(token)
        symbol = scan.symbol()
        if symbol is not None:
            scan.take(",")
    lists = scan.lists()
    if wrapped:
        scan.take(">")
    scan.end()
    return symbol, lists


def _parse(text: str, shape: Shape | None, mesh: Mesh | None) -> TensorSharding:
    symbol, lists = read_lists(text)
    if shape is None:
        raise ShardingError(
            f"the rank of the tensor is not known to {text[:200]!r}",
            cause="the list one past the last dimension holds the partial axes",
            remedy="give the shape",
        )
    rank = len(shape)
    if len(lists) > rank + 1:
        raise ShardingError(
            f"{len(lists)} lists of axes are given to a tensor of {rank} dimensions",
            remedy="give at most one list per dimension and one of partial axes",
        )
    grid = named(mesh, symbol, text)
    *dims, along = axes_at([*lists, *[[] for _ in range(rank + 1 - len(lists))]], grid)
    partial = tuple(Partial(axis) for axis in sorted(along, key=grid.sort_key))
    return TensorSharding(grid, tuple(DimSharding(axes) for axes in dims), partial=partial)


def _print(sharding: TensorSharding, shape: Shape | None) -> str:
    plain = layout(sharding, "the RFC")
    if plain.offsets or plain.halos:
        raise ShardingError(
            "the RFC cannot express offsets or halos", cause=f"sharding {sharding!r}", remedy="print it as shard"
        )
    for p in plain.partial:
        if p.kind != "sum":
            raise ShardingError(
                f"the RFC cannot express a tensor partial by {p.kind}",
                cause=f"its partial tensors are sums; sharding {sharding!r}",
                remedy="print it as shard",
            )
    mesh = named(plain.mesh, None, repr(sharding))
    lists = [*plain.axes, plain.partial_axes] if plain.partial else plain.axes
    symbol = "" if mesh.name == "mesh" else f"{mesh_symbol(mesh)}, "
    return f"{PREFIX}{symbol}{positions(lists, mesh)}>"


NOTATION = Notation(
    "rfc",
    "mesh RFC, `#mesh.shard<@mesh0, [[0], [], [1]]>`, the last list the partial axes",
    lambda text: text.startswith(PREFIX) and KEYWORD.search(text) is None,
    _parse,
    _print,
)
