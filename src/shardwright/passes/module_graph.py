"""A module as one graph, its functions side by side.

Functions share no values, so a worklist over all of them, one after another, does what it would do over the module.
Calls stay ops. `write_back` puts what was found back into the module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.graph import Block, Function, Graph, Op
from shardwright.ir.read import Reader
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.notation.modules import READERS
from shardwright.notation.names import symbol_text
from shardwright.notation.tuples import expand_tuples
from shardwright.passes.entry import entries
from shardwright.passes.module_ops import functions, symbol_of
from shardwright.passes.module_shardings import SHARDING, meshes_of
from shardwright.propagation.working import CalledFunction

__all__ = ["FunctionPart", "ModuleGraph", "read_module_graph"]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionPart:
    """One function among the others.

    Attributes:
        handle: The `func.func`.
        arguments: Where its arguments stand among those of the graph.
        results: Where its results stand among those of the graph; nowhere, for a function that others call.
        is_entered: Whether a program enters by it.
        start: At which place among the ops of the graph's block it begins.
        ops: Its ops with their handles, an op before those in its regions.
    """

    handle: Any
    arguments: range
    results: range
    ops: tuple[tuple[Any, Op], ...]
    is_entered: bool
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class ModuleGraph:
    """The functions of a module that have a body, and the graph of all of them together.

    The graph's arguments and results are those of one function after those of another; results only of the functions
    that a program enters by.
    """

    graph: Graph
    parts: tuple[FunctionPart, ...]

    def starts(self) -> dict[int, int]:
        """The place among the ops of the block at which the function of each argument begins."""
        arguments = self.graph.main.block.arguments
        return {arguments[number]: part.start for part in self.parts for number in part.arguments}

    def values(self) -> dict[int, Any]:
        """The handle of every value."""
        values: dict[int, Any] = {}
        arguments = self.graph.main.block.arguments
        for part in self.parts:
            given = part.handle.regions[0].blocks[0].arguments
            values.update(zip((arguments[index] for index in part.arguments), given, strict=True))
            for handle, op in part.ops:
                values.update(zip(op.results, handle.results, strict=True))
                for region, inner in zip(handle.regions, op.regions, strict=False):
                    values.update(zip(inner.arguments, region.blocks[0].arguments, strict=True))
        return values

    def readers(self) -> dict[int, list[tuple[int, int]]]:
        """Of values that are read several times: which op (by its place among all) reads each as which operand.

        The newest use stands last. MLIR lists the uses of a value, and some conflicts are settled in that order. In a
        module that was parsed that is the order of the program; passes may leave another.
        """
        places = {op: place for place, op in enumerate(self.graph.main.block.walk())}
        owners = {handle: places.get(op, len(places) - 1) for part in self.parts for handle, op in part.ops}
        several = {value for value, uses in enumerate(self.graph.uses()) if len(uses) > 1}
        readers: dict[int, list[tuple[int, int]]] = {}
        for value, handle in self.values().items():
            if value in several:
                uses = [(owners.get(use.owner.operation), use.operand_number) for use in handle.uses]
                readers[value] = [(place, number) for place, number in reversed(uses) if place is not None]
        return readers

    def called(self) -> tuple[CalledFunction, ...]:
        """The functions that others call, whose `func.return` stands in the graph."""
        arguments = self.graph.main.block.arguments
        return tuple(
            [
                CalledFunction(
                    symbol_text(symbol_of(part.handle)), tuple(arguments[part.arguments.start : part.arguments.stop])
                )
                for part in self.parts
                if not part.is_entered
            ]
        )


@uncollected
def read_module_graph(module: ir.Module) -> ModuleGraph:
    """Read all functions of a module; nothing is changed but tuples, which are taken apart.

    Raises:
        ShardingError: what a graph cannot hold: dynamic shapes, regions of several blocks; tuples that cannot be taken
            apart.
    """
    expand_tuples(module)
    reader = _FunctionReader(module, READERS, "-")
    reader.meshes.update(meshes_of(module))
    entered = set(entries(module))
    combined = Function("side by side", Block((), []), [], [], [], [], [])
    returned: tuple[int, ...] = ()
    parts: list[FunctionPart] = []
    for handle in functions(module):
        if not handle.regions[0].blocks:
            continue
        function = reader.function(handle)
        block = function.block
        arguments = range(len(combined.block.arguments), len(combined.block.arguments) + len(block.arguments))
        results, start = range(0), len(combined.block.ops)
        ops = tuple(_with_handles(handle.regions[0].blocks[0], block))
        combined.block.arguments += block.arguments
        combined.argument_attributes += function.argument_attributes
        is_entered = handle in entered
        if is_entered:
            results = range(len(returned), len(returned) + len(block.terminator.operands))
            returned += block.terminator.operands
            combined.result_attributes += function.result_attributes
            combined.result_shardings += function.result_shardings
            combined.block.ops += block.ops[:-1]
        else:
            combined.block.ops += block.ops
        parts.append(FunctionPart(handle, arguments, results, ops, is_entered, start))
    types = tuple(reader.types[value] for value in returned)
    combined.block.ops.append(Op(Signature("func.return", (), types, ()), returned, ()))
    graph = Graph(reader.types, reader.shardings, combined, reader.meshes, reader.locations)
    return ModuleGraph(graph, tuple(parts))


def _with_handles(block: Any, read: Block) -> Iterator[tuple[Any, Op]]:
    for view, op in zip(block.operations, read.ops, strict=True):
        handle = view.operation
        yield handle, op
        for region, inner in zip(handle.regions, op.regions, strict=False):
            yield from _with_handles(region.blocks[0], inner)


class _FunctionReader(Reader):
    """Reads functions one by one; a call is an op like any other."""

    def function(self, handle: Any) -> Function:
        """One function, its values numbered after those of the functions before it."""
        return self._function(handle)

    def _type_of(self, value: Any, location: Any) -> TensorType:
        """A tensor of which not every size is known is a value of which nothing is known: it passes by."""
        type = value.type
        if isinstance(type, ir.RankedTensorType) and not type.has_static_shape:
            return TensorType.parse(str(type))
        return super()._type_of(value, location)

    def _call(self, op: Any, name: str, into: list[Op], ids: dict[Any, int]) -> None:
        operands = tuple([ids[value] for value in op.operands])
        attributes = dict(op.attributes.items())
        values = list(op.results)
        made = [self._type_of(value, op.location) for value in values]
        signature = self._signature(op, name, attributes, operands, tuple(made))
        results = self._made(values, made, ids)
        if SHARDING in attributes:
            self._read_shardings(op, name, attributes, results)
        into.append(Op(signature, operands, results, (), self._location(op.location)))
