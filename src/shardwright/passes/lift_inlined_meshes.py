"""`sdy-lift-inlined-meshes`: every mesh once, as an `sdy.mesh` that shardings name.

A mesh that a sharding or the replica groups of a collective spell out becomes an `sdy.mesh` op, `@mesh`, `@mesh_0`, …
(`@maximal_mesh_3` for device 3 alone, `@empty_mesh` for no axes), unless there is one like it. Of meshes that are
alike, the first stays. Each `sdy.mesh` gets the attribute `stablehlo.mesh`, which says the same in StableHLO's words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardwright.ir.context import context, ir, parse_attribute
from shardwright.ir.erasing import erase
from shardwright.mesh import Mesh
from shardwright.notation.names import quoted, symbol_text
from shardwright.notation.sdy.sharding import print_mesh
from shardwright.passes.call_graph import Symbols
from shardwright.passes.mesh_references import mesh_in_groups, with_mesh_in_groups
from shardwright.passes.module_ops import operations
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

__all__ = ["lift_inlined_meshes"]

_STABLEHLO_MESH = "stablehlo.mesh"
_WITH_GROUPS = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_broadcast", "collective_reduce")

_Key = tuple[tuple[tuple[str, int], ...], tuple[int, ...] | None]


@register("sdy-lift-inlined-meshes", "Lifts inlined meshes in shardings as `sdy.mesh` symbols.")
def lift_inlined_meshes(module: ir.Module, options: Options) -> None:
    """Name every mesh, and each by one name."""
    _Lifter(module).run()


def _key(mesh: Mesh) -> _Key:
    return mesh.axes, mesh.device_ids


class _Lifter:
    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.symbols = Symbols(module)
        self.shardings = Shardings(module)
        self.named: dict[_Key, Mesh] = {}
        self.last: Any = None

    def run(self) -> None:
        same = self._unite()
        self.shardings.changed_everywhere(self.module, self._named, carriers=bool(same))
        self._lift_from_groups()
        for op in same:
            erase(op)
        for mesh in self.named.values():
            self.symbols.ops[mesh.name].attributes[_STABLEHLO_MESH] = parse_attribute(_stablehlo_mesh(mesh))

    def _unite(self) -> list[Any]:
        """Take up the meshes there are; the ops of those that are like another."""
        same: list[Any] = []
        for name, mesh in self.shardings.meshes.items():
            if self.named.setdefault(_key(mesh), mesh) is mesh:
                self.last = self.symbols.ops[name]
            else:
                same.append(self.symbols.forget(name))
        return same

    def _named(self, sharding: TensorSharding) -> TensorSharding:
        mesh = self._name(sharding.mesh, self.module.operation.location)
        return sharding if mesh == sharding.mesh else replace(sharding, mesh=mesh)

    def _name(self, mesh: Mesh, location: Any) -> Mesh:
        """The mesh like `mesh` that has a name."""
        named = self.named.get(_key(mesh))
        if named is None:
            name = self.symbols.unused(_usual_name(mesh))
            named = self.named[_key(mesh)] = Mesh(mesh.axes, device_ids=mesh.device_ids, name=name)
            self._insert(named, location)
        return named

    def _insert(self, mesh: Mesh, location: Any) -> None:
        attributes = {
            "sym_name": ir.StringAttr.get(mesh.name, context=context()),
            "mesh": parse_attribute(print_mesh(mesh)),
        }
        op = ir.Operation.create("sdy.mesh", attributes=attributes, loc=location)
        if self.last is not None:
            self.module.body.append(op)
            op.move_after(self.last)
        else:
            ir.InsertionPoint.at_block_begin(self.module.body).insert(op)
        self.symbols.add(op)
        self.last = op

    def _lift_from_groups(self) -> None:
        collectives = operations(self.module, inner_first=True)
        for kind in _WITH_GROUPS:
            for op in [op for op in collectives if op.name == f"stablehlo.{kind}"]:
                groups = op.attributes["replica_groups"]
                mesh = mesh_in_groups(str(groups), self.shardings.meshes)
                if mesh is not None:
                    name = symbol_text(self._name(mesh, op.location).name)
                    op.attributes["replica_groups"] = with_mesh_in_groups(groups, name)


def _usual_name(mesh: Mesh) -> str:
    if mesh.axes:
        return "mesh"
    return "empty_mesh" if mesh.device_ids is None else f"maximal_mesh_{mesh.device_ids[0]}"


def _stablehlo_mesh(mesh: Mesh) -> str:
    axes = ", ".join(f"{{name = {quoted(name)}, size = {size} : i64}}" for name, size in mesh.axes)
    ids = mesh.device_ids
    spelt_ids = "" if ids is None else f", device_ids = dense<{list(ids)}> : tensor<{len(ids)}xi64>"
    return f"{{axes = [{axes}]{spelt_ids}}}"
