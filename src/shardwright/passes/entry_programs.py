"""The programs that a module holds, one per function that it is entered by, each rewritten as a whole.

A program is that function with all calls inlined, as the partitioner takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.callees import Callees
from shardwright.ir.channels import give_channels
from shardwright.ir.context import ir
from shardwright.ir.erasing import erase
from shardwright.ir.graph import Graph
from shardwright.ir.read import Reader
from shardwright.ir.signature import Signature
from shardwright.mesh import Mesh
from shardwright.notation.modules import READERS, write
from shardwright.notation.tuples import expand_tuples
from shardwright.passes.call_graph import callee_of
from shardwright.passes.entry import entries, named_symbols
from shardwright.passes.mesh_runs import Change, has_several_sizes
from shardwright.passes.module_ops import functions, operations, symbol_of

__all__ = ["rewrite_entries"]


def rewrite_entries(
    module: ir.Module, change: Change, *, several: Callable[[Graph, Change], Graph], shardings: bool = True
) -> None:
    """Replace every function that a module is entered by with what `change` makes of its program.

    Programs without a mesh stay as they are; functions that only those replaced called are gone, those that ops name
    in other ways stay as they are.

    Arguments:
        module: It is changed.
        change: What to make of a program.
        several: What to do with a program on meshes of different size, and the change.
        shardings: Whether those of the program made are written.

    Raises:
        ShardingError: what a graph cannot hold, or what `change` or `several` raises; the module is not changed then,
            but for tuples, which are taken apart.
    """
    expand_tuples(module)
    programs = [(handle, _program(module, handle)) for handle in entries(module) if handle.regions[0].blocks]
    made = [
        (handle, several(graph, change) if has_several_sizes(graph) else change(graph))
        for handle, graph in programs
        if any(mesh.axes for mesh in graph.meshes.values())
    ]
    before = _called(module)
    for handle, graph in made:
        _replace(handle, graph, shardings)
    _erase_uncalled(module, before)


def _program(module: ir.Module, handle: Any) -> Graph:
    graph = _EntryReader(module, handle).read()
    meshes = _in_shardings(graph)
    names = {mesh.name for mesh in meshes}
    graph.meshes = {name: mesh for name, mesh in graph.meshes.items() if name in names and mesh.axes} or graph.meshes
    graph.callees = Callees()  # they stay where they are
    give_channels(graph)
    for op in graph.walk():
        signature = op.signature
        if op.name == "sdy.constant":  # what import makes of StableHLO's, to be copied freely
            op.signature = Signature("stablehlo.constant", signature.attributes, signature.operands, signature.results)
    return graph


def _in_shardings(graph: Graph) -> list[Mesh]:
    """The meshes that shardings of a graph refer to, or spell out, in the order of its values."""
    shardings = [*graph.shardings, *graph.main.result_shardings]
    shardings += [sharding for op in graph.walk() for sharding in op.signature.boundary.shardings]
    return list(dict.fromkeys(sharding.mesh for sharding in shardings if sharding is not None))


class _EntryReader(Reader):
    """Reads one function of a module that may hold others, and meshes that it does not use."""

    def __init__(self, module: ir.Module, handle: Any) -> None:
        super().__init__(module, READERS, "-")
        self.handle = handle

    def _entry(self) -> Any:
        return self.handle

    def _check_meshes(self) -> None:
        """Left to `_program`, which knows the meshes in use."""


def _replace(handle: Any, graph: Graph, shardings: bool) -> None:
    written = write(graph, shardings=shardings)
    (function,) = [view for view in written.body.operations if view.operation.name == "func.func"]
    _add_meshes(handle.parent, written)
    if "sym_visibility" in handle.attributes:
        function.operation.attributes["sym_visibility"] = handle.attributes["sym_visibility"]
    else:
        del function.operation.attributes["sym_visibility"]
    function.operation.move_before(handle)
    erase(handle)


def _add_meshes(module: Any, written: ir.Module) -> None:
    """Put the meshes that a program was given, by which it says those of several, before all else."""
    body = module.regions[0].blocks[0]
    known = {symbol_of(view.operation): view.operation for view in body.operations if "sym_name" in view.attributes}
    for view in [view for view in written.body.operations if view.operation.name == "sdy.mesh"]:
        name = symbol_of(view.operation)
        if name not in known:
            view.operation.move_before(body.operations[0])
        elif view.attributes["mesh"] != known[name].attributes["mesh"]:
            raise ShardingError(
                f"the module has another @{name} than the mesh that a program was given",
                op="sdy.mesh",
                remedy=f"call @{name} otherwise, or remove it where nothing uses it",
            )


def _called(module: ir.Module) -> set[str]:
    return {callee_of(op) for op in operations(module) if op.name == "func.call"}


def _erase_uncalled(module: ir.Module, before: set[str]) -> None:
    """Erase private functions called `before` that nothing calls or names now, and then what only those called."""
    while True:
        dead = before - _called(module)
        dead = dead and dead - named_symbols(module)
        gone = [f for f in functions(module) if symbol_of(f) in dead and "sym_visibility" in f.attributes]
        for function in gone:
            erase(function)
        if not gone:
            return
