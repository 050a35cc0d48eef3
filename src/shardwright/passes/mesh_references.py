"""The meshes that carriers and the replica groups of collectives refer to, and putting others in the place of these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import ir, parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.names import STRING, SYMBOL, symbol_name, unquoted
from shardwright.passes.module_ops import ARGUMENTS, RESULTS, operations, rows_of

__all__ = ["has_carriers", "mesh_in_groups", "with_mesh_in_groups"]

_IN_GROUPS = re.compile(
    rf"(?<=^#stablehlo\.replica_group_mesh_axes<mesh = )"
    rf"(?:({SYMBOL})|#stablehlo\.mesh<axes=\[((?:{STRING}|[^\]])*)\](?:, device_ids=(dense<.*?> : tensor<\d+xi64>))?>)"
)
_AXIS = re.compile(rf"name = ({STRING}), size = (\d+)")


def has_carriers(module: ir.Module) -> bool:
    """Whether anything says its sharding in text, which names its mesh."""
    for op in operations(module):
        if op.name == CARRIED_CONSTRAINT or CARRIED_SHARDINGS in op.attributes:
            return True
        if op.name == "func.func" and any(
            CARRIED_SHARDING in row for which in (ARGUMENTS, RESULTS) for row in rows_of(op, which)
        ):
            return True
    return False


def mesh_in_groups(groups: str, meshes: Mapping[str, Mesh]) -> Mesh | None:
    """The mesh that replica groups, as text, refer to; one that they spell out has no name. `None` for lists of ids."""
    match = _IN_GROUPS.search(groups)
    if match is None:
        return None
    if match[1]:
        return meshes.get(symbol_name(match[1]))
    axes = [(unquoted(name), int(size)) for name, size in _AXIS.findall(match[2])]
    ids = None if match[3] is None else _numbers(parse_attribute(match[3]))
    return Mesh(axes, device_ids=ids, name="")


def _numbers(attribute: Any) -> list[int]:
    held = ir.DenseIntElementsAttr(attribute)
    return [int(held[index]) for index in range(len(held))]


def with_mesh_in_groups(groups: Any, mesh: str) -> Any:
    """Replica groups over another mesh, given as a symbol."""
    return parse_attribute(_IN_GROUPS.sub(lambda _: mesh, str(groups), count=1))
