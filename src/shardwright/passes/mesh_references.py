"""The meshes that shardings and the replica groups of collectives refer to, and putting others in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import ir, parse_attribute
from shardwright.mesh import Mesh
from shardwright.notation.sdy.names import STRING, SYMBOL, symbol_name, unquoted
from shardwright.notation.sdy.sharding import print_sharding, print_shardings
from shardwright.passes.attached import ARGUMENTS, RESULTS, SHARDING, Shardings, operations, rows_of, set_rows
from shardwright.sharding import TensorSharding

__all__ = ["has_carriers", "mesh_in_groups", "with_mesh_in_groups", "with_meshes"]

_SAID = ("in_shardings", "out_shardings", "sharding", "out_sharding", SHARDING)
_IN_GROUPS = re.compile(
    rf"(?<=^#stablehlo\.replica_group_mesh_axes<mesh = )"
    rf"(?:({SYMBOL})|#stablehlo\.mesh<axes=\[((?:{STRING}|[^\]])*)\](?:, device_ids=(dense<.*?> : tensor<\d+xi64>))?>)"
)
_AXIS = re.compile(rf"name = ({STRING}), size = (\d+)")


def with_meshes(module: ir.Module, shardings: Shardings, change: Callable[[TensorSharding], TensorSharding]) -> None:
    """Replace all shardings of a module, by ones that differ in their mesh only; functions first, as they stand."""
    done: dict[Any, Any] = {}

    def changed(attribute: Any) -> Any:
        found = done.get(attribute)
        if found is None:
            found = done[attribute] = _changed(attribute, shardings, change)
        return found

    for op in operations(module):
        attributes = op.attributes
        if op.name == "func.func":
            for which in (ARGUMENTS, RESULTS):
                if which in attributes:
                    rows = rows_of(op, which)
                    for row in rows:
                        if SHARDING in row:
                            row[SHARDING] = changed(row[SHARDING])
                    set_rows(op, which, rows)
            continue
        for name in _SAID:
            if name in attributes and _is_sharding(attributes[name]):
                attributes[name] = changed(attributes[name])


def _is_sharding(attribute: Any) -> bool:
    """Whether it is one of sdy's: other dialects have attributes called `sharding` too."""
    return str(attribute).startswith("#sdy.sharding")


def _changed(attribute: Any, shardings: Shardings, change: Callable[[TensorSharding], TensorSharding]) -> Any:
    said = shardings.read(attribute)
    changed = tuple(map(change, said))
    if changed == said:
        return attribute
    is_single = str(attribute).startswith("#sdy.sharding<")
    return parse_attribute(print_sharding(changed[0]) if is_single else print_shardings(changed))


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
    found = _IN_GROUPS.search(groups)
    if found is None:
        return None
    if found[1]:
        return meshes.get(symbol_name(found[1]))
    axes = [(unquoted(name), int(size)) for name, size in _AXIS.findall(found[2])]
    ids = None if found[3] is None else _numbers(parse_attribute(found[3]))
    return Mesh(axes, device_ids=ids, name="")


def _numbers(attribute: Any) -> list[int]:
    held = ir.DenseIntElementsAttr(attribute)
    return [int(held[index]) for index in range(len(held))]


def with_mesh_in_groups(groups: Any, mesh: str) -> Any:
    """Replica groups over another mesh, given as a symbol."""
    return parse_attribute(_IN_GROUPS.sub(lambda _: mesh, str(groups), count=1))
