"""Tuples taken apart: a value of tuple type becomes the values that it holds.

    %0 = stablehlo.tuple %a, %b              func.func @f(%t: tuple<A, B>) -> tuple<B>
    %1 = stablehlo.get_tuple_element %0[1]   func.func @f(%t0: A, %t1: B) -> B

What is left reads `%b`. StableHLO lets tuples through functions, calls, custom calls and composites. XLA takes them
apart itself, and a custom call of several results is to it one of a tuple. A sharding of a tuple lists those of what it
holds, however deep; one of an op that is no more becomes a constraint of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import context, ir
from shardwright.ir.erasing import erase
from shardwright.ir.locations import LocationTable
from shardwright.ir.walk import walk
from shardwright.notation.hlo.sites import SHARDING, Fail, Row, dictionary, fail_at, fail_at_row, shortened
from shardwright.notation.hlo.text import parse_hlo
from shardwright.words import counted

__all__ = ["expand_tuples", "may_have_tuples"]

_TUPLE, _ELEMENT = "stablehlo.tuple", "stablehlo.get_tuple_element"
_REBUILT = frozenset(["func.call", "func.return", "stablehlo.composite", "stablehlo.custom_call"])
_ALIASES = "output_operand_aliases"
"""The attribute of a custom call that counts its operands. (`operand_layouts` MLIR refuses where one is a tuple.)"""
_ALIAS, _DONOR = "tf.aliasing_output", "jax.buffer_donor"
_SDY = "sdy.sharding"
_NO_DIMS = "an sdy.sharding lists the dimensions of one tensor"


def may_have_tuples(content: str | bytes) -> bool:
    """Whether a module may hold tuples: types of them in text, ops that pack or unpack them in bytecode."""
    return "tuple<" in content if isinstance(content, str) else b"tuple" in content


def expand_tuples(module: ir.Module, name: str = "-") -> None:
    """Take all tuples of a module apart, in place; what has none is left as it is.

    Raises:
        ShardingError: a sharding that does not fit its tuple, a custom call that numbers operands some of which are
            tuples; at its line in `name`.
    """
    with context():
        _Expansion(name).run(module)


class _Expansion:
    def __init__(self, name: str) -> None:
        self.locations = LocationTable(name)
        self.held: dict[Any, list[Any]] = {}  # of values of tuple type
        self.gone: list[Any] = []
        self.replaced: list[tuple[Any, int]] = []  # blocks, and how many arguments they had

    def run(self, module: ir.Module) -> None:
        functions = [view.operation for view in module.body.operations if view.operation.name == "func.func"]
        for function in functions:
            self.function(function)
        for op in reversed(self.gone):
            erase(op)
        for block, count in self.replaced:
            for _ in range(count):
                block.erase_argument(0)

    def function(self, function: Any) -> None:
        """Take the tuples of a function apart, its arguments and results first."""
        signature: Any = ir.TypeAttr(function.attributes["function_type"]).value
        inputs, results = list(signature.inputs), list(signature.results)
        if any(map(_is_tuple, (*inputs, *results))):
            type = ir.FunctionType.get(_leaves_of(inputs), _leaves_of(results))
            for key, kind, types in (("arg_attrs", "argument", inputs), ("res_attrs", "result", results)):
                if key in function.attributes:
                    entries = zip(types, ir.ArrayAttr(function.attributes[key]), strict=True)
                    rows = [Row(function, kind, number, *entry) for number, entry in enumerate(entries)]
                    function.attributes[key] = ir.ArrayAttr.get(list(self.rows(rows, results)))
            function.attributes["function_type"] = ir.TypeAttr.get(type)
            for block in function.regions[0].blocks:
                self.arguments(block)
        walk(function, self.op, outer_first=True)

    def arguments(self, block: Any) -> None:
        """Give a block one argument for each value that its arguments hold."""
        self.replaced.append((block, len(block.arguments)))
        for argument in list(block.arguments):
            made = [block.add_argument(type, argument.location) for type in _leaves(argument.type)]
            if _is_tuple(argument.type):
                self.held[argument] = made
            else:
                argument.replace_all_uses_with(made[0])

    def rows(self, rows: Sequence[Row], results: Sequence[Any]) -> Iterator[Any]:
        """What is said of each argument, or result, once tuples are taken apart."""
        for row in rows:
            entries, fail = dictionary(row.attribute), fail_at_row(self.locations, row)
            leaves = list(_leaves(row.type))
            if _ALIAS in entries:
                number = ir.IntegerAttr(entries.pop(_ALIAS)).value
                first = sum(len(list(_leaves(result))) for result in results[:number])
                if _is_tuple(row.type) or _is_tuple(results[number]):
                    entries[_DONOR] = ir.BoolAttr.get(True)
                else:
                    entries[_ALIAS] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), first)
            if _is_tuple(row.type) and _SDY in entries:
                raise fail("a tuple has an sdy.sharding", _NO_DIMS, "annotate what is taken out of it")
            stated = _stated(fail, entries.pop(SHARDING, None), len(leaves)) if _is_tuple(row.type) else None
            for number in range(len(leaves)):
                more = {} if stated is None else {SHARDING: stated[number]}
                yield ir.DictAttr.get(entries | more)

    def op(self, op: Any) -> Any:
        """Take the tuples of an op apart."""
        if op.name == _TUPLE:
            self.held[op.results[0]] = self.constrained(op, self.read(op.operands))
            self.gone.append(op)
        elif op.name == _ELEMENT:
            self.element(op)
        elif op.name in _REBUILT and any(_is_tuple(value.type) for value in (*op.operands, *op.results)):
            return self.rebuild(op)
        return ir.WalkResult.ADVANCE

    def element(self, op: Any) -> None:
        """What an op takes out of a tuple."""
        index = ir.IntegerAttr(op.attributes["index"]).value
        type: Any = ir.TupleType(op.operands[0].type)
        first = sum(len(list(_leaves(type.get_type(number)))) for number in range(index))
        found = self.read(op.operands)[first : first + len(list(_leaves(op.results[0].type)))]
        found = self.constrained(op, found)
        if _is_tuple(op.results[0].type):
            self.held[op.results[0]] = found
        else:
            op.results[0].replace_all_uses_with(found[0])
        self.gone.append(op)

    def rebuild(self, op: Any) -> Any:
        """An op that reads and gives what tuples hold."""
        attributes = dict(op.attributes.items())
        if len(attributes.get(_ALIASES, ())) and any(_is_tuple(value.type) for value in op.operands):
            raise self.fail(op)(
                f"{_ALIASES} numbers operands some of which are tuples",
                "tuples are taken apart, and operands behind them get other numbers",
                "pass what the tuples hold",
            )
        types = _leaves_of([result.type for result in op.results])
        if any(_is_tuple(value.type) for value in op.results):
            if _SDY in attributes:
                raise self.fail(op)("a tuple has an sdy.sharding", _NO_DIMS, "let the op have several results")
            _stated(self.fail(op), attributes.get(SHARDING), len(types))
        made = ir.Operation.create(
            op.name, types, self.read(op.operands), attributes, loc=op.location, ip=ir.InsertionPoint(op)
        )
        results = iter(made.results)
        for result in op.results:
            held = [next(results) for _ in _leaves(result.type)]
            if _is_tuple(result.type):
                self.held[result] = held
            else:
                result.replace_all_uses_with(held[0])
        self.gone.append(op)
        return ir.WalkResult.ADVANCE

    def read(self, values: Sequence[Any]) -> list[Any]:
        """What values hold, each that is no tuple itself."""
        return [one for value in values for one in (self.held[value] if _is_tuple(value.type) else (value,))]

    # --- shardings

    def constrained(self, op: Any, values: list[Any]) -> list[Any]:
        """Values with what is said of an op that is no more."""
        if _SDY in op.attributes:
            remedy = "put an sdy.sharding_constraint there"
            raise self.fail(op)("an op that only packs or unpacks values has an sdy.sharding", _NO_DIMS, remedy)
        stated = _stated(self.fail(op), op.attributes.get(SHARDING), len(values))
        if stated is None:
            return values
        target = ir.StringAttr.get("Sharding")
        return [
            ir.Operation.create(
                "stablehlo.custom_call",
                [value.type],
                [value],
                {"call_target_name": target, SHARDING: sharding},
                loc=op.location,
                ip=ir.InsertionPoint(op),
            ).result
            for value, sharding in zip(values, stated, strict=True)
        ]

    def fail(self, op: Any) -> Fail:
        """Makes errors that stand at an op."""
        return fail_at(self.locations, op)


def _stated(fail: Fail, attribute: Any, count: int) -> list[Any] | None:
    """The shardings of what a tuple holds: those listed, or the one given for all."""
    if attribute is None:
        return None
    text = ir.StringAttr(attribute).value
    try:
        sharding = parse_hlo(text)
    except ShardingError as error:
        raise fail(error.diagnostic.message, error.diagnostic.cause, error.diagnostic.remedy) from None
    if sharding.kind != "tuple":
        return [attribute] * count
    if len(sharding.elements) != count:
        raise fail(
            f"{counted(len(sharding.elements), 'sharding')} for a tuple that holds {counted(count, 'value')}",
            f"mhlo.sharding is {shortened(sharding)}",
            "give one for each value, as deep as it may be, or one for all",
        )
    return [ir.StringAttr.get(str(element)) for element in sharding.elements]


def _is_tuple(type: Any) -> bool:
    return isinstance(type, ir.TupleType)


def _leaves(type: Any) -> Iterator[Any]:
    """The types of what a value of a type holds: its own, if it is no tuple."""
    if not _is_tuple(type):
        yield type
        return
    held: Any = ir.TupleType(type)
    for number in range(held.num_types):
        yield from _leaves(held.get_type(number))


def _leaves_of(types: Sequence[Any]) -> list[Any]:
    return [leaf for type in types for leaf in _leaves(type)]
