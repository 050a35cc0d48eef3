"""Replica groups by mesh axes, spelled out as lists of partitions where the meshes of a module are not at hand.

What a plugin of JAX compiles, as those for TPUs and GPUs do, is handed over in the StableHLO that the plugin knows. On
the way the bindings of jaxlib spell groups out themselves, but do not find the mesh of those within a loop. And where a
module becomes a part of another, its meshes stay behind.
"""

from __future__ import annotations

from shardwright.analysis.groups import groups_over
from shardwright.ir.context import ir
from shardwright.ir.walk import every_op
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import parse_mesh
from shardwright.partition.localize.collectives import dense_groups

__all__ = ["spell_groups"]

_GROUPS = "replica_groups"


def spell_groups(module: ir.Module) -> None:
    """Spell out the groups of all collectives of a per-device module, in place."""
    named = [op for op in every_op(module.operation) if _GROUPS in op.attributes and _is_named(op)]
    if not named:
        return
    meshes = _meshes(module)
    for op in named:
        groups = groups_over(str(op.attributes[_GROUPS]), meshes, op.name)
        assert groups.axes is not None
        assert groups.mesh is not None
        op.attributes[_GROUPS] = ir.Attribute.parse(dense_groups(groups.axes, groups.mesh, groups.mesh), module.context)


def _meshes(module: ir.Module) -> dict[str, Mesh]:
    """The meshes of a module by symbol."""
    found = [view.operation for view in module.body.operations if view.operation.name == "sdy.mesh"]
    named = [(ir.StringAttr(op.attributes["sym_name"]).value, str(op.attributes["mesh"])) for op in found]
    return {symbol: parse_mesh(text, symbol) for symbol, text in named}


def _is_named(op: ir.Operation) -> bool:
    return "replica_group_mesh_axes" in str(op.attributes[_GROUPS])
