"""Meshes that shardings spell out (`#sdy.sharding<mesh<["x"=2]>, [{"x"}]>`) become meshes of the module.

Source: Shardy's pass `sdy-lift-inlined-meshes`, which names them `@mesh`, `@mesh_0`, …, a mesh of one device
`@maximal_mesh_3` by its id, and a mesh of none `@empty_mesh`; one that the module has already is referred to.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from shardwright.ir.graph import Graph, Op
from shardwright.mesh import Mesh
from shardwright.notation.sdy.sharding import parse_shardings, print_shardings
from shardwright.sharding import TensorSharding

__all__ = ["lift_inlined_meshes"]

_TEXTS = ("in_shardings", "out_shardings")


def lift_inlined_meshes(graph: Graph) -> None:
    """Give every mesh that a sharding of `graph` spells out a name there, in place."""
    lifting = _Lifting(graph)
    graph.shardings[:] = map(lifting.lifted, graph.shardings)
    graph.main.result_shardings[:] = map(lifting.lifted, graph.main.result_shardings)
    for op in graph.walk():
        if op.signature.name in ("sdy.manual_computation", "sdy.named_computation"):
            lifting.lift_texts(op)


class _Lifting:
    def __init__(self, graph: Graph) -> None:
        self.meshes = graph.meshes
        self.named: dict[Mesh, Mesh] = {}

    def lifted(self, sharding: TensorSharding | None) -> TensorSharding | None:
        """`sharding` on the mesh of the module that is the same."""
        if sharding is None or sharding.mesh.name:
            return sharding
        return replace(sharding, mesh=self.mesh(sharding.mesh))

    def mesh(self, spelt: Mesh) -> Mesh:
        found = self.named.get(spelt)
        if found is None:
            same = (
                mesh for mesh in self.meshes.values() if (mesh.axes, mesh.device_ids) == (spelt.axes, spelt.device_ids)
            )
            found = next(same, None) or Mesh(spelt.axes, device_ids=spelt.device_ids, name=self.free_name(spelt))
            self.named[spelt] = self.meshes[found.name] = found
        return found

    def free_name(self, mesh: Mesh) -> str:
        name = "mesh"
        if not mesh.axes:
            name = "empty_mesh" if mesh.device_ids is None else f"maximal_mesh_{mesh.device_ids[0]}"
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count()))
        return next(candidate for candidate in candidates if candidate not in self.meshes)

    def lift_texts(self, op: Op) -> None:
        attributes = tuple((key, self.text(key, text)) for key, text in op.signature.attributes)
        if attributes != op.signature.attributes:
            op.signature = replace(op.signature, attributes=attributes)

    def text(self, key: str, text: str) -> str:
        if key not in _TEXTS or "mesh<" not in text:
            return text
        lifted = map(self.lifted, parse_shardings(text, self.meshes))
        return print_shardings([sharding for sharding in lifted if sharding is not None])
