"""`sdy-inline-meshes`: every sharding spells its mesh out, and the `sdy.mesh` ops go.

A mesh that something else names still, such as the replica groups of a collective, stays.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.context import ir
from shardwright.mesh import Mesh
from shardwright.passes.call_graph import Symbols
from shardwright.passes.mesh_references import has_carriers, mesh_in_groups
from shardwright.passes.module_ops import operations
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

__all__ = ["inline_meshes"]


@register("sdy-inline-meshes", "Inlines the meshes that shardings name, and removes the `sdy.mesh` symbols.")
def inline_meshes(module: ir.Module, options: Options) -> None:
    """Spell out the mesh of every sharding."""
    shardings = Shardings(module)
    shardings.changed_everywhere(module, _spelt_out, carriers=False)
    if has_carriers(module):
        return
    kept = {
        mesh.name
        for op in operations(module)
        if "replica_groups" in op.attributes
        and (mesh := mesh_in_groups(str(op.attributes["replica_groups"]), shardings.meshes)) is not None
    }
    symbols = Symbols(module)
    for name in shardings.meshes:
        if name not in kept:
            symbols.erase(name)


def _spelt_out(sharding: TensorSharding) -> TensorSharding:
    mesh = sharding.mesh
    return replace(sharding, mesh=Mesh(mesh.axes, device_ids=mesh.device_ids, name=""))
