"""MLIR text → graph, each form of op parsed once (see `ir.fast.reduced`): for large modules, which repeat themselves.

MLIR parses and verifies the reduced text, which `ir.read` reads; the ops of the whole are made from that here. What
MLIR would have checked of the others is checked here: that a name is defined once and before it is read, and types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.calls import is_annotated_call, is_annotated_function
from shardwright.ir.context import context, ir, load_module
from shardwright.ir.fast.chunks import Unsure, op_column
from shardwright.ir.fast.reduced import Chunk, Form, FunctionText, Reduced, Row, reduce_text, result_names
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.inlining import MOST_COPIED
from shardwright.ir.locations import LocationTable
from shardwright.ir.nesting import DEEPEST_CALLS
from shardwright.ir.ops import CALLS
from shardwright.ir.read import Reader
from shardwright.ir.signature import Signature
from shardwright.ir.stages import stage_of
from shardwright.ir.statements import Readers
from shardwright.ir.types import TensorType
from shardwright.memo import uncollected
from shardwright.sharding import TensorSharding

__all__ = ["read_text"]

_OWN_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)$')
_CALL = "func.call"


@uncollected
def read_text(
    text: str, readers: Readers, source: str = "-", check: Callable[[ir.Module], None] | None = None
) -> tuple[Graph, ir.Module] | None:
    """The graph of a module, as `ir.read.read_module` reads it, and the reduced module, of the same top level.

    `None` for a text that has to be read as a whole: one that MLIR refuses, that the graph cannot hold, that is laid
    out in another way than MLIR prints it, or of whose reduced module `check` raises a `ShardingError`.
    """
    try:
        reduced = reduce_text(text)
        module = load_module(reduced.text, source)
        if check is not None:
            check(module)
        return _Restorer(reduced, _ReducedReader(module, readers, source), source).graph(), module
    except (Unsure, ShardingError, ir.MLIRError, RecursionError):
        return None


class _ReducedReader(Reader):
    """Reads a reduced module: calls stay ops, so that each chunk is one op."""

    def _call(self, op: Any, name: str, into: list[Op], ids: dict[Any, int]) -> None:
        symbol = ir.FlatSymbolRefAttr(op.attributes[CALLS[name]]).value
        callee = self.functions.get(symbol)
        if is_annotated_call(op) or (callee is not None and is_annotated_function(callee)):
            raise Unsure("a call that says shardings")
        operands = tuple([ids[value] for value in op.operands])
        results = tuple([self._value(value, ids, op.location) for value in op.results])
        types = self.types
        signature = Signature(
            _CALL, (("callee", symbol),), tuple([types[v] for v in operands]), tuple([types[v] for v in results])
        )
        into.append(Op(signature, operands, results, (), self._location(op.location)))

    def callee(self, symbol: str) -> Block:
        """The reduced block of a function; raises `Unsure` where there is none."""
        function = self.functions.get(symbol)
        if function is None or not function.regions[0].blocks:
            raise Unsure("a function without body")
        body = function.regions[0].blocks[0]
        ids: dict[Any, int] = {}
        block = Block(tuple([self._value(value, ids, function.location) for value in body.arguments]), [])
        self._ops(body, block.ops, ids)
        return block


@dataclass(eq=False, slots=True)
class _Plan:
    """How ops of one form are made.

    Attributes:
        signature: Of the op; of a call, with the callee.
        operands: The types of the operands, or of what the row reads where the op is not simple.
        order: Which of the names that the row reads is which operand; `None` where they stand in order.
        results: The types and the shardings of the results.
        location: Its number; -1 for ops known by their line, that many columns `ahead` of their name.
        op: The op of the reduced graph.
        sources: The values of the reduced graph that stand for those which the row reads.
        is_simple: Whether it is neither a call nor an op of its own.
        chunk: What the op was read from.
        reduced_line: Where that begins in the reduced text, from 0.
    """

    signature: Signature
    operands: list[TensorType]
    order: list[int] | None
    results: list[tuple[TensorType, TensorSharding | None]]
    location: int
    ahead: int
    op: Op
    sources: list[int]
    is_simple: bool
    chunk: Chunk
    reduced_line: int


_Origin = tuple[Chunk | None, int]
"""Where things are copied from: a chunk and its line in the reduced text, or, of a header and of a body that stands
there whole, by how many lines they were moved.
"""


@dataclass(eq=False, slots=True)
class _Body:
    """A function ready to be restored: its text, its block in the reduced graph, and plans for its forms."""

    text: FunctionText
    block: Block
    plans: dict[Form, _Plan]


class _Restorer:
    """Makes the graph of the whole text."""

    def __init__(self, reduced: Reduced, reader: _ReducedReader, source: str) -> None:
        self.reduced = reduced
        self.reader = reader
        self.locations = LocationTable(source, reduced.lines, reduced.aliases)
        self.types: list[TensorType] = []
        self.shardings: list[TensorSharding | None] = []
        self.bodies: dict[str, _Body] = {}
        self.calls: list[str] = []
        self.nested: dict[int, int] = {}

    def graph(self) -> Graph:
        reduced_graph = self.reader.read()
        if reduced_graph.callees:
            raise Unsure("functions that stay, at their lines")
        main = reduced_graph.main
        self._check_locations()
        self.bodies[main.name] = self._body(main.name, main.block)
        arguments = main.block.arguments
        self.types += reduced_graph.types[: len(arguments)]
        self.shardings += reduced_graph.shardings[: len(arguments)]
        ops: list[Op] = []
        self._restore(main.name, arguments, 0, ops)
        self._restore_uncalled()
        header: _Origin = None, self.reduced.functions[main.name].moved
        places = [self._location(place, header) for place in main.argument_locations]
        main = replace(main, block=Block(arguments, ops), argument_locations=places)
        graph = replace(reduced_graph, types=self.types, shardings=self.shardings, main=main, locations=self.locations)
        graph.stage = stage_of(graph)
        return graph

    def _restore_uncalled(self) -> None:
        """For what is wrong in functions that nothing calls."""
        values = len(self.types)
        for symbol in self.reduced.functions:
            if symbol not in self.bodies:
                body = self.bodies[symbol] = self._body(symbol, self.reader.callee(symbol))
                arguments = [self._value(self.reader.types[value], None) for value in body.block.arguments]
                self._restore(symbol, arguments, 0, [])
        del self.types[values:], self.shardings[values:]

    def _check_locations(self) -> None:
        """Settle all now where one may be malformed, or may be the unknown location in other words."""
        aliases = self.reduced.aliases
        texts = {form.location for text in self.reduced.functions.values() for form, _, _ in text.rows} - {""}
        for text in texts:
            if text.startswith("#") and not aliases.get(text[1:], "").startswith("loc("):
                raise Unsure("no location")
            self.locations.of_text(text)
        if not all(text.startswith("#") for text in texts) or any("fused" in text for text in aliases.values()):
            self.locations.settle()

    def _body(self, symbol: str, block: Block) -> _Body:
        """Plans for all ops of a function from its reduced block."""
        text = self.reduced.functions.get(symbol)
        if text is None:
            raise Unsure("a function of another form")
        if text.is_whole:
            return _Body(text, block, {})
        if len(block.ops) != len(text.chunks) or len(block.arguments) != len(text.arguments):
            raise Unsure("more or fewer ops than chunks")
        values = dict(zip(text.arguments, block.arguments, strict=True))
        ops: dict[Chunk, tuple[Op, list[int]]] = {}
        for number, (op, chunk) in enumerate(zip(block.ops, text.chunks, strict=True)):
            self._check_place(op, chunk, number, text)
            if not values.keys() >= set(chunk.sources):
                raise Unsure("a name of another form")
            ops[chunk] = op, [values[source] for source in chunk.sources]
            values.update(zip(result_names(chunk, len(op.results)), op.results, strict=True))
        forms = dict.fromkeys(form for form, _, _ in text.rows)
        return _Body(text, block, {form: self._plan(form, *ops[form.chunk], text) for form in forms})

    def _check_place(self, op: Op, chunk: Chunk, number: int, text: FunctionText) -> None:
        """The op is what MLIR read from the chunk of that number, and nothing else."""
        place = str(self.reader.locations.handle(op.location))
        if chunk.located:
            if place != f'loc("{number}")':
                raise Unsure("an op that is no chunk")
        elif _moved(place, chunk, text.reduced_line + chunk.reduced_line)[0] != chunk.line:
            raise Unsure("an op that begins no chunk")

    def _plan(self, form: Form, op: Op, sources: list[int], text: FunctionText) -> _Plan:
        chunk, signature = form.chunk, op.signature
        first_line = text.reduced_line + chunk.reduced_line
        is_simple = chunk.returns or (chunk.shared and signature.name != _CALL)
        order: list[int] | None = None
        if chunk.returns and op.operands != tuple(sources):
            raise Unsure("a return of another form")
        if chunk.shared:
            if sorted(op.operands) != sorted(set(sources)):
                raise Unsure("names that are no operands")
            order = [sources.index(value) for value in op.operands]
        types, shardings = self.reader.types, self.reader.shardings
        return _Plan(
            signature,
            [types[value] for value in (op.operands if is_simple else sources)],
            None if order == list(range(len(sources))) else order,
            [(types[value], shardings[value]) for value in op.results],
            self.locations.of_text(form.location) if form.location else -1,
            0 if form.location else _moved(str(self.reader.locations.handle(op.location)), chunk, first_line)[1],
            op,
            sources,
            is_simple,
            chunk,
            first_line,
        )

    def _value(self, type: TensorType, sharding: TensorSharding | None) -> int:
        self.types.append(type)
        self.shardings.append(sharding)
        return len(self.types) - 1

    def _restore(self, symbol: str, arguments: Sequence[int], caller: int, into: list[Op]) -> None:
        """Append the ops of a function called from location `caller` with values as arguments."""
        if symbol in self.calls:
            raise Unsure("recursion")
        if len(self.calls) > DEEPEST_CALLS or (self.calls and len(self.types) > MOST_COPIED):
            raise Unsure("calls that are too deep or too many")
        self.calls.append(symbol)
        body = self.bodies.get(symbol)
        if body is None:
            body = self.bodies[symbol] = self._body(symbol, self.reader.callee(symbol))
        if body.text.is_whole:
            mapping = dict(zip(body.block.arguments, arguments, strict=True))
            self._copy_ops(body.block.ops, mapping, caller, (None, body.text.moved), into)
        else:
            self._restore_named(body, arguments, caller, into)
        self.calls.pop()

    def _restore_named(self, body: _Body, arguments: Sequence[int], caller: int, into: list[Op]) -> None:
        ids = dict(zip(body.text.arguments, arguments, strict=True))
        try:
            defined = self._restore_rows(body, ids, caller, into)
        except KeyError:
            raise Unsure("a name that is not defined") from None
        if len(ids) != len(arguments) + defined:
            raise Unsure("a name that is defined twice")

    def _restore_rows(self, body: _Body, ids: dict[str, int], caller: int, into: list[Op]) -> int:
        """Append the ops of a body, their values called by name in `ids`; how many names that made."""
        types, plans, shardings, locations = self.types, body.plans, self.shardings, self.locations
        defined = 0
        for row in body.text.rows:
            form, names, line = row
            plan = plans[form]
            location = plan.location if plan.location >= 0 else locations.at_line(line, plan.ahead)
            if caller:
                location = locations.inside(location, caller)
            if not plan.is_simple:
                defined += self._restore_other(plan, row, ids, location, caller, into)
                continue
            operands = tuple([ids[name] for name in names[1:]])
            if plan.order is not None:
                operands = tuple([operands[place] for place in plan.order])
            if [types[value] for value in operands] != plan.operands:
                raise Unsure("a value of another type")
            number = len(types)
            results: tuple[int, ...] = ()
            if len(plan.results) == 1:
                type, sharding = plan.results[0]
                types.append(type)
                shardings.append(sharding)
                ids[names[0]] = number
                results = (number,)
                defined += 1
            elif plan.results:
                results = tuple([self._value(*result) for result in plan.results])
                defined += _name_results(ids, [(names[0], len(results))], results)
            into.append(Op(plan.signature, operands, results, (), location))
        return defined

    def _restore_other(
        self, plan: _Plan, row: Row, ids: dict[str, int], location: int, caller: int, into: list[Op]
    ) -> int:
        """Append a call's function, or an op of its own; how many names that made."""
        shared = plan.chunk.shared
        names, groups = (row[1][1:], [(row[1][0], len(plan.results))]) if shared else (row[1], plan.chunk.groups)
        values = [ids[name] for name in names]
        if [self.types[value] for value in values] != plan.operands:
            raise Unsure("a value of another type")
        mapping = dict(zip(plan.sources, values, strict=True))
        self._copy(plan.op, mapping, location, caller, (plan.chunk, plan.reduced_line), into)
        return _name_results(ids, groups, [mapping[result] for result in plan.op.results])

    def _copy(
        self, op: Op, mapping: dict[int, int], location: int, caller: int, origin: _Origin, into: list[Op]
    ) -> None:
        """Append an op of the reduced graph, its values mapped; for a call, the ops of its function."""
        operands = tuple([mapping[value] for value in op.operands])
        if op.signature.name == _CALL:
            ops: list[Op] = []
            self._restore(op.signature.get("callee"), operands, location, ops)
            into.extend(ops[:-1])
            mapping.update(zip(op.results, ops[-1].operands, strict=True))
            return
        results = self._new_values(op.results, mapping)
        regions: tuple[Block, ...] = ()
        if op.regions:
            regions = tuple([self._copy_block(block, mapping, caller, origin) for block in op.regions])
        into.append(Op(op.signature, operands, results, regions, location))

    def _copy_block(self, block: Block, mapping: dict[int, int], caller: int, origin: _Origin) -> Block:
        copied = Block(self._new_values(block.arguments, mapping), [])
        self._copy_ops(block.ops, mapping, caller, origin, copied.ops)
        return copied

    def _copy_ops(self, ops: list[Op], mapping: dict[int, int], caller: int, origin: _Origin, into: list[Op]) -> None:
        known, inside = self.nested, self.locations.inside
        for op in ops:
            location = known.get(op.location, -1)
            if location < 0:
                location = self._location(op.location, origin)
            self._copy(op, mapping, inside(location, caller) if caller else location, caller, origin, into)

    def _new_values(self, values: Sequence[int], mapping: dict[int, int]) -> tuple[int, ...]:
        first = len(self.types)
        for number, value in enumerate(values, first):
            mapping[value] = number
            self.types.append(self.reader.types[value])
            self.shardings.append(self.reader.shardings[value])
        return tuple(range(first, len(self.types)))

    def _location(self, number: int, origin: _Origin) -> int:
        """The number of the location that has a number in the reduced graph."""
        handle = self.reader.locations.handle(number)
        chunk, line = origin
        place = _OWN_PLACE.match(str(handle))
        if place is None or int(place[1]) <= self.reduced.ahead:
            location = self.locations.add(handle)
        elif chunk is None:
            with context():
                location = self.locations.add(ir.Location.file("-", int(place[1]) + line, int(place[2])))
        else:
            location = self.locations.at_line(*_moved(str(handle), chunk, line))
        self.nested[number] = location
        return location


def _moved(place: str, chunk: Chunk, reduced_line: int) -> tuple[int, int]:
    """Where the op is that MLIR's parser placed in the reduced text, as `LocationTable.at_line` has it."""
    match = _OWN_PLACE.match(place)
    text = "".join(chunk.pieces).split("\n")
    at = int(match[1]) - 1 - reduced_line if match else -1
    if match is None or not 0 <= at < len(text) or not op_column(text[at]) or " loc(" in text[at]:
        raise Unsure("a position of no op")
    ahead = int(match[2]) - op_column(text[at])
    line = text[at].encode()
    if ahead < 0 or b"%" in line[op_column(text[at]) :][:ahead]:
        raise Unsure("a position among names")
    return chunk.line + at, ahead


def _name_results(ids: dict[str, int], groups: Sequence[tuple[str, int]], results: Sequence[int]) -> int:
    """Put the results of an op into `ids`; how many names that made."""
    left = list(results)
    before = 0
    for name, size in groups:
        group, left = left[:size], left[size:]
        before += 1 if size == 1 else size + 1
        ids[name] = group[0]
        if size > 1:
            ids.update((f"{name}#{number}", value) for number, value in enumerate(group))
    return before
