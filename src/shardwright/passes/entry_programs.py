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
from shardwright.passes.call_graph import callee_of
from shardwright.passes.entry import entries, named_symbols
from shardwright.passes.module_ops import functions, operations, symbol_of

__all__ = ["rewrite_entries"]


def rewrite_entries(module: ir.Module, change: Callable[[Graph], Graph], *, shardings: bool = True) -> None:
    """Replace every function that a module is entered by with what `change` makes of its program.

    Programs without a mesh stay as they are; functions that only those replaced called are gone, those that ops name
    in other ways stay as they are.

    Raises:
        ShardingError: what a graph cannot hold, meshes of different size in one program, or what `change` raises; the
            module is not changed then.
    """
    programs = [(handle, _program(module, handle)) for handle in entries(module) if handle.regions[0].blocks]
    made = [(handle, change(graph)) for handle, graph in programs if any(mesh.axes for mesh in graph.meshes.values())]
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
    sizes = {mesh.size: mesh for mesh in (*graph.meshes.values(), *meshes) if mesh.axes}
    if len(sizes) > 1:
        raise ShardingError(
            f"function @{symbol_of(handle)} uses meshes of different size",
            op="func.func",
            cause="devices: " + ", ".join(f"{_named(mesh)} of {size}" for size, mesh in sizes.items()),
            remedy="use one set of devices within a program",
        )
    return graph


def _in_shardings(graph: Graph) -> list[Mesh]:
    """The meshes that shardings of a graph refer to, or spell out, in the order of its values."""
    shardings = [*graph.shardings, *graph.main.result_shardings]
    shardings += [sharding for op in graph.walk() for sharding in op.signature.boundary.shardings]
    return list(dict.fromkeys(sharding.mesh for sharding in shardings if sharding is not None))


def _named(mesh: Mesh) -> str:
    return f"@{mesh.name}" if mesh.name else repr(mesh)


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
    if "sym_visibility" in handle.attributes:
        function.operation.attributes["sym_visibility"] = handle.attributes["sym_visibility"]
    else:
        del function.operation.attributes["sym_visibility"]
    function.operation.move_before(handle)
    erase(handle)


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
