"""Graph → MLIR module: every op created once, in order.

How a sharding is written is a notation's business, so its printers are handed in; use
`shardwright.notation.modules.write` to write a module of the `sdy` dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shardwright.ir.callees import named_by
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import context, ir, parse_type
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.opaque import attribute
from shardwright.ir.ops import COMPUTATIONS, SHARDING_ATTRIBUTES
from shardwright.ir.signature import Body, Signature
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["Printers", "boundary_texts", "write_module"]


@dataclass(frozen=True, slots=True)
class Printers:
    """How the texts of a module are written.

    Attributes:
        mesh: A mesh as its attribute.
        sharding: One as an attribute of the `sdy` dialect.
        shardings: Those of an op's operands or results as one attribute.
        manual_axes: Names of axes as the attribute of a manual computation.
        step: The attributes that say a step, for an operand of this sharding, where it has one, on the mesh.
        needs_carrier: Whether the dialect's parser would not know this one.
        carrier: One as the text of a carrier, for a tensor of the shape given.
    """

    mesh: Callable[[Mesh], str]
    sharding: Callable[[TensorSharding], str]
    shardings: Callable[[Sequence[TensorSharding]], str]
    manual_axes: Callable[[Iterable[str]], str]
    step: Callable[[Step, TensorSharding | None, Mesh], dict[str, str]]
    needs_carrier: Callable[[TensorSharding], bool]
    carrier: Callable[[TensorSharding, tuple[int, ...]], str]


@uncollected
def write_module(graph: Graph, printers: Printers, *, shardings: bool = True, locations: bool = True) -> ir.Module:
    """The module of `graph`, with or without the shardings of values. Not verified: see `Module.operation.verify`.

    Without `locations` none is made for ops, for a module that is printed without them.
    """
    with context(), ir.Location.unknown():
        return _ModuleWriter(graph, printers, shardings, locations).write()


def boundary_texts(signature: Signature, printers: Printers) -> dict[str, str]:
    """The attributes, as text by name, in which an op itself states what enters and leaves it."""
    boundary = signature.boundary
    if signature.name not in COMPUTATIONS:
        return {} if boundary.out_shardings is None else {"sdy.sharding": printers.shardings(boundary.out_shardings)}
    sides = {"in_shardings": boundary.in_shardings, "out_shardings": boundary.out_shardings}
    texts = {key: printers.shardings(side) for key, side in sides.items() if side is not None}
    if signature.name == "sdy.manual_computation":
        texts["manual_axes"] = printers.manual_axes(boundary.manual_axes)
    return texts


class _ModuleWriter:
    def __init__(self, graph: Graph, printers: Printers, shardings: bool, locations: bool) -> None:
        self.graph = graph
        self.printers = printers
        self.shardings = shardings
        self.locations = locations
        self.values: list[Any] = [None] * len(graph.types)
        self._types: dict[TensorType, Any] = {}
        self._heads: dict[tuple[int, ...], tuple[str, list[Any], dict[str, Any]]] = {}
        self._signatures: list[Signature] = []  # of the heads

    def write(self) -> ir.Module:
        graph = self.graph
        module = ir.Module.create(loc=ir.Location.unknown())
        for name, text in graph.attributes.items():
            module.operation.attributes[name] = attribute(text)
        if graph.name:
            module.operation.attributes["sym_name"] = ir.StringAttr.get(graph.name)
        with ir.InsertionPoint(module.body):
            for symbol, mesh in graph.meshes.items():
                values = {key: attribute(text) for key, text in graph.mesh_attributes.get(symbol, {}).items()}
                values |= {"sym_name": ir.StringAttr.get(symbol), "mesh": attribute(self.printers.mesh(mesh))}
                ir.Operation.create("sdy.mesh", attributes=values)
            self._function()
        self._callees(module)
        return module

    def _callees(self, module: ir.Module) -> None:
        """Put the functions that ops name after the one written, with their meshes."""
        if not self.graph.callees:
            return
        callees = self.graph.callees.of(name for signature in self._signatures for name in named_by(signature))
        if not self.shardings:
            callees = callees.without_shardings()
        source = callees.module()  # kept in a name: its ops go with it
        for view in list(source.body.operations):
            op = view.operation
            if ir.StringAttr(op.attributes["sym_name"]).value not in self.graph.meshes:
                module.body.append(op.detach_from_parent())

    def _type(self, type: TensorType) -> Any:
        handle = self._types.get(type)
        if handle is None:
            handle = self._types[type] = parse_type(str(type))
        return handle

    def _function(self) -> None:
        graph, main = self.graph, self.graph.main
        inputs = [self._type(graph.types[value]) for value in main.block.arguments]
        outputs = [self._type(graph.types[value]) for value in main.block.terminator.operands]
        attributes = {name: attribute(text) for name, text in main.attributes.items()}
        attributes["sym_name"] = ir.StringAttr.get(main.name)
        attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
        attributes["sym_visibility"] = ir.StringAttr.get("public")
        arguments, returned = main.block.arguments, main.block.terminator.operands
        shardings = [graph.shardings[value] for value in arguments]
        attributes["arg_attrs"] = self._dictionaries(main.argument_attributes, arguments, shardings)
        attributes["res_attrs"] = self._dictionaries(main.result_attributes, returned, main.result_shardings)
        function = ir.Operation.create("func.func", attributes=attributes, regions=1)
        names = [ir.Location.name(name) for name in main.argument_names]
        block = ir.Block.create_at_start(function.regions[0], inputs, names)
        self._block(main.block, block)

    def _dictionaries(
        self, texts: list[dict[str, str]], values: Sequence[int], shardings: Sequence[TensorSharding | None]
    ) -> Any:
        rows = []
        for entries, value, sharding in zip(texts, values, shardings, strict=True):
            row = {name: attribute(text) for name, text in entries.items()}
            if sharding is not None and self.shardings:
                if self.printers.needs_carrier(sharding):
                    text = self.printers.carrier(sharding, self.graph.types[value].dims)
                    row[CARRIED_SHARDING] = ir.StringAttr.get(text)
                else:
                    row["sdy.sharding"] = attribute(self.printers.sharding(sharding))
            rows.append(ir.DictAttr.get(row))
        return ir.ArrayAttr.get(rows)

    def _block(self, block: Block, into: ir.Block) -> None:
        values = self.values
        for number, argument in zip(block.arguments, into.arguments, strict=True):
            values[number] = argument
        with ir.InsertionPoint(into):
            for op in block.ops:
                self._op(op)

    def _op(self, op: Op) -> None:
        values = self.values
        if op.signature.name == "stablehlo.constant" and op.signature.results[0].dtype.startswith("complex"):
            values[op.results[0]] = self._complex_constant(op)
            return
        name, types, attributes = self._head(op)
        created = ir.Operation.create(
            name,
            results=types,
            operands=[values[number] for number in op.operands],
            attributes=attributes,
            regions=len(op.regions) + len(op.signature.bodies),
            loc=self.graph.locations.handle(op.location) if self.locations else None,
        )
        for number, value in zip(op.results, created.results, strict=True):
            values[number] = value
        for index, body in enumerate(op.signature.bodies):
            self._body(body, created.regions[index])
        for index, block in enumerate(op.regions):
            arguments = [self._type(self.graph.types[value]) for value in block.arguments]
            locations = [ir.Location.unknown()] * len(arguments)
            self._block(block, ir.Block.create_at_start(created.regions[index], arguments, locations))

    def _complex_constant(self, op: Op) -> Any:
        """Made from text: jaxlib has no handle for dense complex attributes."""
        signature = op.signature
        text = f'"stablehlo.constant"() <{{value = {signature.text("value")}}}> : () -> {signature.results[0]}'
        created = ir.Operation.parse(text)
        attributes: dict[str, Any] = {}
        self._state_shardings(signature.name, (self.graph.shardings[op.results[0]],), signature.results, attributes)
        for key, value in attributes.items():
            created.attributes[key] = value
        ir.InsertionPoint.current.insert(created)
        return created.result

    def _head(self, op: Op) -> tuple[str, list[Any], dict[str, Any]]:
        """Name, result types and attributes, remembered per signature and shardings, which the graph keeps alive."""
        signature, shardings_of = op.signature, self.graph.shardings
        shardings = tuple([shardings_of[value] for value in op.results]) if self.shardings else ()
        before = shardings_of[op.operands[0]] if signature.step is not None else None
        key = (id(signature), id(before), *map(id, shardings))
        head = self._heads.get(key)
        if head is None:
            attributes = {name: attribute(text) for name, text in signature.attributes}
            texts = boundary_texts(signature, self.printers)
            if not self.shardings:
                texts.pop("sdy.sharding", None)
            if signature.step is not None and shardings and shardings[0] is not None:
                texts |= self.printers.step(signature.step, before, shardings[0].mesh)
            attributes |= {key: attribute(text) for key, text in texts.items()}
            name = self._state_shardings(signature.name, shardings, signature.results, attributes)
            self._signatures.append(signature)
            head = self._heads[key] = (name, [self._type(type) for type in signature.results], attributes)
        return head

    def _state_shardings(
        self,
        name: str,
        shardings: tuple[TensorSharding | None, ...],
        types: tuple[TensorType, ...],
        attributes: dict[str, Any],
    ) -> str:
        """Put the shardings of an op's results into its attributes. The name of the op that then stands for it."""
        printers = self.printers
        some = next((sharding for sharding in shardings if sharding is not None), None)
        if some is None or "out_shardings" in attributes:
            return name
        carried = any(sharding is not None and printers.needs_carrier(sharding) for sharding in shardings)
        if carried and name in ("sdy.sharding_constraint", "sdy.reshard"):
            attributes["sharding"] = ir.StringAttr.get(printers.carrier(some, types[0].dims))
            return CARRIED_CONSTRAINT
        if carried and name == "sdy.data_flow_edge":
            attributes[CARRIED_SHARDINGS] = ir.ArrayAttr.get([ir.StringAttr.get(printers.carrier(some, types[0].dims))])
            return name
        if name in SHARDING_ATTRIBUTES:
            attributes[SHARDING_ATTRIBUTES[name]] = attribute(printers.sharding(some))
            return name
        filled = [
            sharding if sharding is not None else TensorSharding.of(some.mesh, [()] * type.rank, open=type.is_tensor)
            for sharding, type in zip(shardings, types, strict=True)
        ]
        if carried:
            texts = [printers.carrier(one, type.dims) for one, type in zip(filled, types, strict=True)]
            attributes[CARRIED_SHARDINGS] = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in texts])
        else:
            attributes["sdy.sharding"] = attribute(printers.shardings(filled))
        return name

    def _body(self, body: Body, region: Any) -> None:
        types = [self._type(type) for type in body.arguments]
        block = ir.Block.create_at_start(region, types, [ir.Location.unknown()] * len(types))
        values: list[Any] = list(block.arguments)
        with ir.InsertionPoint(block):
            for op in body.ops:
                created = ir.Operation.create(
                    op.name,
                    results=[self._type(type) for type in op.results],
                    operands=[values[number] for number in op.operands],
                    attributes={name: attribute(text) for name, text in op.attributes},
                    regions=len(op.bodies),
                )
                values.extend(created.results)
                for inner, inner_region in zip(op.bodies, created.regions, strict=True):
                    self._body(inner, inner_region)
