"""Meshes that shardings spell out (`#sdy.sharding<mesh<["x"=2]>, [{"x"}]>`) become meshes of the module.

Source: Shardy's pass `sdy-lift-inlined-meshes`, which names them `@mesh`, `@mesh_0`, …, a mesh of one device
`@maximal_mesh_3` by its id, and a mesh of none `@empty_mesh`; one that the module has already is referred to.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from shardwright.ir.graph import Graph
from shardwright.ir.ops import COMPUTATIONS
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

__all__ = ["lift_inlined_meshes"]


def lift_inlined_meshes(graph: Graph) -> None:
    """Give every mesh that a sharding of `graph` spells out a name there, in place."""
    lifting = _Lifting(graph)
    for shardings in (graph.shardings, graph.main.result_shardings):
        shardings[:] = [None if sharding is None else lifting.lifted(sharding) for sharding in shardings]
    for op in graph.walk():
        if op.name in COMPUTATIONS:
            op.signature = replace(op.signature, boundary=op.signature.boundary.changed(lifting.lifted))


class _Lifting:
    def __init__(self, graph: Graph) -> None:
        self.meshes = graph.meshes
        self.named: dict[Mesh, Mesh] = {}

    def lifted(self, sharding: TensorSharding) -> TensorSharding:
        """`sharding` on the mesh of the module that is the same."""
        return sharding if sharding.mesh.name else replace(sharding, mesh=self.mesh(sharding.mesh))

    def mesh(self, spelt: Mesh) -> Mesh:
        lifted = self.named.get(spelt)
        if lifted is None:
            same = (
                mesh for mesh in self.meshes.values() if (mesh.axes, mesh.device_ids) == (spelt.axes, spelt.device_ids)
            )
            lifted = next(same, None) or Mesh(spelt.axes, device_ids=spelt.device_ids, name=self.free_name(spelt))
            self.named[spelt] = self.meshes[lifted.name] = lifted
        return lifted

    def free_name(self, mesh: Mesh) -> str:
        name = "mesh"
        if not mesh.axes:
            name = "empty_mesh" if mesh.device_ids is None else f"maximal_mesh_{mesh.device_ids[0]}"
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count()))
        return next(candidate for candidate in candidates if candidate not in self.meshes)
