"""Graph → MLIR module: every op created once, in order.

How a sharding is written is a notation's business, so its printer is handed in; use
`shardwright.notation.modules.write` to write a module of the `sdy` dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardwright.ir.context import context, ir, parse_type
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.opaque import attribute
from shardwright.ir.read import SHARDING_ATTRIBUTES
from shardwright.ir.signature import Body
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

__all__ = ["write_module"]

PrintSharding = Callable[[TensorSharding], str]
PrintShardings = Callable[[Sequence[TensorSharding]], str]
PrintMesh = Callable[[Mesh], str]


@uncollected
def write_module(
    graph: Graph,
    print_mesh: PrintMesh,
    print_sharding: PrintSharding | None,
    print_shardings: PrintShardings | None,
) -> ir.Module:
    """The module of `graph`; with no printers, without any shardings. Not verified: see `Module.operation.verify`."""
    with context(), ir.Location.unknown():
        return _Writer(graph, print_mesh, print_sharding, print_shardings).write()


class _Writer:
    def __init__(
        self,
        graph: Graph,
        print_mesh: PrintMesh,
        print_sharding: PrintSharding | None,
        print_shardings: PrintShardings | None,
    ) -> None:
        self.graph = graph
        self.print_mesh = print_mesh
        self.print_sharding = print_sharding
        self.print_shardings = print_shardings
        self.values: list[Any] = [None] * len(graph.types)
        self._types: dict[TensorType, Any] = {}
        self._signatures: dict[Any, tuple[list[Any], dict[str, Any]]] = {}

    def write(self) -> ir.Module:
        graph = self.graph
        module = ir.Module.create(loc=ir.Location.unknown())
        for name, text in graph.attributes.items():
            module.operation.attributes[name] = attribute(text)
        if graph.name:
            module.operation.attributes["sym_name"] = ir.StringAttr.get(graph.name)
        with ir.InsertionPoint(module.body):
            for symbol, mesh in graph.meshes.items():
                values = {"sym_name": ir.StringAttr.get(symbol), "mesh": attribute(self.print_mesh(mesh))}
                ir.Operation.create("sdy.mesh", attributes=values)
            self._function()
        return module

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
        shardings = [graph.shardings[value] for value in main.block.arguments]
        attributes["arg_attrs"] = self._dictionaries(main.argument_attributes, shardings)
        attributes["res_attrs"] = self._dictionaries(main.result_attributes, main.result_shardings)
        function = ir.Operation.create("func.func", attributes=attributes, regions=1)
        names = [ir.Location.name(name) for name in main.argument_names]
        block = ir.Block.create_at_start(function.regions[0], inputs, names)
        self._block(main.block, block)

    def _dictionaries(self, texts: list[dict[str, str]], shardings: Sequence[TensorSharding | None]) -> Any:
        rows = []
        for entries, sharding in zip(texts, shardings, strict=True):
            row = {name: attribute(text) for name, text in entries.items()}
            if sharding is not None and self.print_sharding is not None:
                row["sdy.sharding"] = attribute(self.print_sharding(sharding))
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
        types, attributes = self._head(op)
        created = ir.Operation.create(
            op.signature.name,
            results=types,
            operands=[values[number] for number in op.operands],
            attributes=attributes,
            regions=len(op.regions) + len(op.signature.bodies),
            loc=self.graph.locations.handle(op.location),
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
        sharding = self.graph.shardings[op.results[0]]
        if sharding is not None and self.print_shardings is not None:
            created.attributes["sdy.sharding"] = attribute(self.print_shardings([sharding]))
        ir.InsertionPoint.current.insert(created)
        return created.result

    def _head(self, op: Op) -> tuple[list[Any], dict[str, Any]]:
        """Result types and attributes, remembered per signature and shardings."""
        signature = op.signature
        shardings = tuple([self.graph.shardings[value] for value in op.results]) if self.print_sharding else ()
        key = (signature, shardings)
        head = self._signatures.get(key)
        if head is None:
            attributes = {name: attribute(text) for name, text in signature.attributes}
            self._shardings(signature.name, shardings, signature.results, attributes)
            head = self._signatures[key] = ([self._type(type) for type in signature.results], attributes)
        return head

    def _shardings(
        self,
        name: str,
        shardings: tuple[TensorSharding | None, ...],
        types: tuple[TensorType, ...],
        attributes: dict[str, Any],
    ) -> None:
        if not any(sharding is not None for sharding in shardings) or "out_shardings" in attributes:
            return
        if name in SHARDING_ATTRIBUTES:
            assert self.print_sharding is not None
            assert shardings[0] is not None
            attributes[SHARDING_ATTRIBUTES[name]] = attribute(self.print_sharding(shardings[0]))
            return
        assert self.print_shardings is not None
        some = next(sharding for sharding in shardings if sharding is not None)
        filled = [
            sharding if sharding is not None else TensorSharding.of(some.mesh, [()] * type.rank, open=type.is_tensor)
            for sharding, type in zip(shardings, types, strict=True)
        ]
        attributes["sdy.sharding"] = attribute(self.print_shardings(filled))

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
