"""MLIR module → graph: one walk, every handle turned into a small id, every call inlined.

A call about which shardings say something becomes an `sdy.named_computation` (see `ir.calls`), any other one its ops.
Functions that ops name in other ways stay what they are (see `ir.callees`).

How a sharding is written is a notation's business, so the parsers of sharding text are handed in; use
`shardwright.notation.modules.read` to read a module of the `sdy` dialect.
"""

from __future__ import annotations

from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.callees import Callees, called_by, collect, named_by, undefined
from shardwright.ir.calls import (
    CallSide,
    call_sides,
    computation,
    constrained,
    is_annotated_call,
    is_annotated_function,
)
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS, carried_text, carried_texts
from shardwright.ir.context import ir
from shardwright.ir.devices import check_meshes
from shardwright.ir.graph import Block, Function, Graph, Op
from shardwright.ir.handles import attributes_of, dictionaries_of, has_body, result_name, unique_names, visibility_of
from shardwright.ir.inlining import MOST_COPIED, CallSites, Inlined, bodiless, too_many, uncallable
from shardwright.ir.locations import LocationTable, argument_name, position_of
from shardwright.ir.nesting import DEEPEST_CALLS, DEEPEST_REGIONS, too_deep
from shardwright.ir.opaque import attribute
from shardwright.ir.ops import CALLS, SHARDING_ATTRIBUTES, STEPS
from shardwright.ir.signature import Signature
from shardwright.ir.stages import stage_of
from shardwright.ir.statements import Readers, Statements
from shardwright.ir.types import TensorType, static_type
from shardwright.memo import uncollected
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

__all__ = ["Reader", "read_module"]

_SHARDING = "sdy.sharding"


@uncollected
def read_module(module: ir.Module, readers: Readers, source: str = "-") -> Graph:
    """Read `module`, whose entry is `@main` or its only public function; `source` names the text it came from.

    Raises:
        ShardingError: dynamic shapes, tuples, several blocks in a region, recursion, no entry function, a custom call
            of a function that is not there, or meshes of different size.
    """
    return Reader(module, readers, source).read()


class Reader:
    """One reading of a module."""

    def __init__(self, module: ir.Module, readers: Readers, source: str) -> None:
        self.module = module
        self.meshes: dict[str, Mesh] = {}
        self.readers = readers
        self.statements = Statements(readers, self.meshes)
        self.types: list[TensorType] = []
        self.shardings: list[TensorSharding | None] = []
        self.mesh_ops: dict[str, Any] = {}
        self.locations = LocationTable(source)
        self.functions: dict[str, Any] = {}
        self.calls: list[str] = []
        self.caller = 0
        self._annotated: dict[str, bool] = {}
        self._types: dict[Any, TensorType] = {}
        self._signatures: dict[Any, Signature] = {}
        self._interned: dict[Signature, Signature] = {}
        self._sites = CallSites(self.locations)
        self._inlined: dict[str, Inlined] = {}
        self._copied = 0
        self._depth = 0

    def read(self) -> Graph:
        """The graph."""
        mesh_attributes: dict[str, dict[str, str]] = {}
        for op in self.module.body.operations:
            name = op.operation.name
            if name == "sdy.mesh":
                symbol = ir.StringAttr(op.attributes["sym_name"]).value
                self.mesh_ops[symbol] = op.operation
                self.meshes[symbol] = self.readers.mesh(str(op.attributes["mesh"]), symbol)
                row = {key: str(value) for key, value in op.attributes.items() if key not in ("sym_name", "mesh")}
                mesh_attributes |= {symbol: row} if row else {}
            elif name == "func.func":
                self.functions[ir.StringAttr(op.attributes["sym_name"]).value] = op.operation
        self._check_meshes()
        main = self._function(self._entry())
        attributes = {key: str(value) for key, value in self.module.operation.attributes.items() if key != "sym_name"}
        named = "sym_name" in self.module.operation.attributes
        name = ir.StringAttr(self.module.operation.attributes["sym_name"]).value if named else ""
        graph = Graph(self.types, self.shardings, main, self.meshes, self.locations, attributes, name, mesh_attributes)
        graph.callees = self._callees(graph)
        graph.stage = stage_of(graph)
        return graph

    def _callees(self, graph: Graph) -> Callees:
        """The functions that the ops of a graph name."""
        calling = {signature for signature in self._interned if called_by(signature)}
        for op in graph.walk() if calling else ():
            if op.signature in calling:
                self._check_called(op, graph)
                calling.remove(op.signature)
        named = {name for signature in self._interned for name in named_by(signature)}
        return collect(named, self.functions, self.mesh_ops)

    def _check_called(self, op: Op, graph: Graph) -> None:
        """Refuse an op that calls a function which is not there, or the one that it belongs to."""
        for name in sorted(called_by(op.signature)):
            where = str(self.locations[op.location])
            if name not in self.functions:
                raise undefined(op.signature.label, name, where)
            if graph.main.name in collect([name], self.functions, {}).functions:
                raise uncallable(op.signature.label, graph.main.name, True, where)

    def _check_meshes(self) -> None:
        check_meshes(self.meshes)

    def _entry(self) -> Any:
        if "main" in self.functions:
            return self.functions["main"]
        public = [f for f in self.functions.values() if visibility_of(f) == "public"]
        if len(public) == 1:
            return public[0]
        raise ShardingError(
            "the module has no function @main",
            cause=f"functions: {', '.join('@' + name for name in self.functions) or 'none'}",
            remedy="name the program's entry @main",
        )

    def _function(self, op: Any) -> Function:
        name = ir.StringAttr(op.attributes["sym_name"]).value
        if not op.regions[0].blocks:
            raise self._at(bodiless(name), op.location)
        body = self._only_block(op.regions[0], op)
        arguments: list[int] = []
        ids: dict[Any, int] = {}
        attributes = dictionaries_of(op, "arg_attrs")
        attributes += [{} for _ in range(len(body.arguments) - len(attributes))]
        names: list[str] = []
        places: list[int] = []
        for number, value in enumerate(body.arguments):
            names.append(argument_name(str(value.location) if hasattr(value, "location") else "", number))
            place = position_of(value, op.location)
            places.append(self.locations.add(place))
            arguments.append(self._value(value, ids, place))
            self.shardings[arguments[-1]] = self._pop_sharding(attributes[number], arguments[-1], place)
        block = Block(tuple(arguments), [])
        self._ops(body, block.ops, ids)
        results = dictionaries_of(op, "res_attrs")
        results += [{} for _ in range(len(block.terminator.operands) - len(results))]
        returned = block.terminator.operands
        result_shardings = [self._pop_sharding(*pair, op.location) for pair in zip(results, returned, strict=True)]
        result_names = [result_name(result, number) for number, result in enumerate(results)]
        kept = {
            key: str(value)
            for key, value in op.attributes.items()
            if key not in ("sym_name", "function_type", "arg_attrs", "res_attrs", "sym_visibility")
        }
        named = unique_names(names), unique_names(result_names)
        return Function(name, block, attributes, results, *named, result_shardings, kept, places)

    def _value(self, value: Any, ids: dict[Any, int], location: Any) -> int:
        ids[value] = self.new_value(self._type_of(value, location))
        return ids[value]

    def _type_of(self, value: Any, location: Any) -> TensorType:
        handle = value.type
        type = self._types.get(handle)
        if type is None:
            try:
                type = self._types[handle] = static_type(handle)
            except ShardingError as error:
                raise self._at(error, location) from None
        return type

    def _parse(self, text: str, location: Any) -> tuple[TensorSharding, ...]:
        try:
            return self.readers.shardings(text, self.meshes)
        except ShardingError as error:
            raise self._at(error, location) from None

    def _at(self, error: ShardingError, location: Any) -> ShardingError:
        return error.replaced(location=self.locations.where(location))

    def _pop_sharding(self, attributes: dict[str, str], value: int, location: Any) -> TensorSharding | None:
        """What the attributes of an argument or function result say of its sharding, taken out of them."""
        text, carried = attributes.pop(_SHARDING, None), attributes.pop(CARRIED_SHARDING, None)
        if carried is None:
            return None if text is None else self._parse(text, location)[0]
        try:
            return self._carrier(carried_text(attribute(carried)), value)
        except ShardingError as error:
            raise self._at(error, location) from None

    def _carrier(self, text: str, value: int) -> TensorSharding | None:
        return self.readers.carrier(text, self.types[value].dims, self.meshes) if text else None

    def _ops(self, block: Any, into: list[Op], ids: dict[Any, int]) -> None:
        signatures, types, known = self._signatures, self.types, self._types
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in CALLS:
                self._call(op, name, into, ids)
                continue
            attributes = attributes_of(op, name)
            carried = name == CARRIED_CONSTRAINT
            name = "sdy.sharding_constraint" if carried else name
            operands = tuple([ids[value] for value in op.operands])
            location, values = op.location, list(op.results)
            made = [known.get(value.type) or self._type_of(value, location) for value in values]
            before = self.shardings[operands[0]] if name in STEPS else None
            # Types by identity, which one reading keeps apart: they are hashed for every op.
            types_of = tuple([id(types[v]) for v in operands]), tuple(map(id, made))
            key = (name, tuple(attributes.items()), *types_of, before)
            regions = len(op.regions)
            signature = signatures.get(key) if not regions else None
            if signature is None:
                fresh = self._signature(op, name, attributes, operands, tuple(made))
                signature = self._interned.setdefault(fresh, fresh)
                if not regions:
                    signatures[key] = signature
            results = self._made(values, made, ids)
            if carried or CARRIED_SHARDINGS in attributes:
                self._read_carriers(op, attributes, results)
            elif SHARDING_ATTRIBUTES.get(name, _SHARDING) in attributes:
                self._read_shardings(op, name, attributes, results)
            blocks: tuple[Block, ...] = ()
            if regions and not has_body(op, name, attributes):
                blocks = tuple([self._region(region, ids, op) for region in op.regions])
            if name == "stablehlo.while":
                self._carry(blocks, results)
            into.append(Op(signature, operands, results, blocks, self._location(location)))

    def _made(self, values: list[Any], made: list[TensorType], ids: dict[Any, int]) -> tuple[int, ...]:
        """The numbers of an op's results, of the types `made`."""
        first = len(self.types)
        self.types += made
        if len(made) == 1:
            self.shardings.append(None)
            ids[values[0]] = first
            return (first,)
        self.shardings += [None] * len(made)
        results = tuple(range(first, len(self.types)))
        ids.update(zip(values, results, strict=True))
        return results

    def _carry(self, blocks: tuple[Block, ...], results: tuple[int, ...]) -> None:
        """What a loop's `sdy.sharding` says of its results it says of the values carried round."""
        for block in blocks:
            for argument, result in zip(block.arguments, results, strict=True):
                self.shardings[argument] = self.shardings[result]

    def _location(self, handle: Any) -> int:
        number = self.locations.add(handle)
        return self._sites.inside(number, self.caller) if self.caller else number

    def _read_shardings(self, op: Any, name: str, attributes: Any, results: tuple[int, ...]) -> None:
        text = str(attributes[SHARDING_ATTRIBUTES.get(name, _SHARDING)])
        self._say(results, self._parse(text, op.location))

    def _say(self, values: tuple[int, ...], shardings: tuple[TensorSharding, ...]) -> None:
        for value, sharding in zip(values, shardings, strict=False):
            self.shardings[value] = sharding

    def _read_carriers(self, op: Any, attributes: Any, results: tuple[int, ...]) -> None:
        try:
            for result, text in zip(results, carried_texts(op.name, attributes, len(results)) or (), strict=True):
                self.shardings[result] = self._carrier(text, result)
        except ShardingError as error:
            raise self._at(error, op.location) from None

    def _signature(
        self, op: Any, name: str, handles: dict[str, Any], operands: tuple[int, ...], results: tuple[TensorType, ...]
    ) -> Signature:
        types = tuple([self.types[value] for value in operands]), results
        before = self.shardings[operands[0]] if name in STEPS else None
        try:
            return self.statements.signature(op, name, handles, types, before)
        except ShardingError as error:
            raise self._at(error, op.location) from None

    def _region(self, region: Any, ids: dict[Any, int], op: Any) -> Block:
        body = self._only_block(region, op)
        block = Block(tuple([self._value(value, ids, op.location) for value in body.arguments]), [])
        self._enter(op)
        self._ops(body, block.ops, ids)
        self._depth -= 1
        return block

    def _enter(self, op: Any) -> None:
        """Go into a region of an op."""
        self._depth += 1
        if self._depth > DEEPEST_REGIONS:
            where = str(self.locations[self._location(op.location)])
            raise too_deep(op.name, "regions", DEEPEST_REGIONS, where)

    def _only_block(self, region: Any, op: Any) -> Any:
        if len(region.blocks) != 1:
            raise ShardingError(
                f"a region of {op.name} has {len(region.blocks)} blocks",
                op=op.name,
                location=str(self.locations[self._location(op.location)]),
                cause="values are followed through structured control flow, which has one block per region",
                remedy="write branches as stablehlo.case, loops as stablehlo.while",
            )
        return region.blocks[0]

    def _call(self, op: Any, name: str, into: list[Op], ids: dict[Any, int]) -> None:
        symbol = ir.FlatSymbolRefAttr(op.attributes[CALLS[name]]).value
        location = self._location(op.location)
        callee = self.functions.get(symbol)
        if symbol in self.calls or callee is None or not callee.regions[0].blocks:
            raise uncallable(name, symbol, symbol in self.calls, str(self.locations[location]))
        body = self._only_block(callee.regions[0], callee)
        operands = tuple([ids[value] for value in op.operands])
        incoming, outgoing = self._call_sides(op, symbol, callee)
        operands, ops = self._constrained(operands, incoming, op)
        into += ops
        is_computation = incoming.shardings is not None or outgoing.shardings is not None
        self._check_call(name, symbol, location)
        arguments = tuple([self._value(v, {}, op.location) for v in body.arguments]) if is_computation else operands
        inside = self._called(symbol, body, arguments, location)
        if is_computation:
            block = Block(arguments, [*inside])
            into.append(computation(self, symbol, operands, block, (incoming, outgoing), location))
            returned = into[-1].results
            self._say(returned, outgoing.shardings or ())
        else:
            into += inside[:-1]
            returned = inside[-1].operands
        returned, ops = self._constrained(returned, outgoing, op)
        into += ops
        ids.update(zip(op.results, returned, strict=True))

    def _check_call(self, name: str, symbol: str, location: int) -> None:
        """Refuse a call too deep, or with which all calls make too many ops."""
        if len(self.calls) == DEEPEST_CALLS:
            raise too_deep(name, "calls", DEEPEST_CALLS, str(self.locations[location]))
        known = self._inlined.get(symbol)
        self._copied += known.size if known is not None else 0
        if self._copied > MOST_COPIED:
            raise too_many(name, symbol, str(self.locations[location]))

    def _called(self, symbol: str, body: Any, arguments: tuple[int, ...], location: int) -> list[Op]:
        """The ops of a function called from a location, its return included."""
        known = self._inlined.get(symbol)
        if known is not None:
            return known.again(arguments, location, self._sites, self.types, self.shardings)
        first = len(self.types)
        outer, self.caller = self.caller, location
        self.calls.append(symbol)
        inside: list[Op] = []
        self._ops(body, inside, dict(zip(body.arguments, arguments, strict=True)))
        self.calls.pop()
        self.caller = outer
        if len(set(arguments)) == len(arguments):
            self._inlined[symbol] = Inlined(arguments, first, len(self.types), inside, location)
        return inside

    def _call_sides(self, op: Any, symbol: str, callee: Any) -> tuple[CallSide, CallSide]:
        """What is said at the boundary of a call."""
        if symbol not in self._annotated:
            self._annotated[symbol] = is_annotated_function(callee)
        if not self._annotated[symbol] and not is_annotated_call(op):
            return CallSide(), CallSide()
        try:
            return call_sides(op, callee, lambda text: self.readers.shardings(text, self.meshes))
        except ShardingError as error:
            raise self._at(error, op.location) from None

    def _constrained(self, values: tuple[int, ...], side: CallSide, op: Any) -> tuple[tuple[int, ...], list[Op]]:
        try:
            return constrained(self, values, side.carried, self._carrier, self._location(op.location))
        except ShardingError as error:
            raise self._at(error, op.location) from None

    def new_value(self, type: TensorType, sharding: TensorSharding | None = None) -> int:
        """A fresh value."""
        self.types.append(type)
        self.shardings.append(sharding)
        return len(self.types) - 1
