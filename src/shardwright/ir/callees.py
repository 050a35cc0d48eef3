"""Functions that ops name and that no call is replaced by: the comparator of a custom call, say.

They travel beside the graph as text that nobody looks into, and stand after `main` where the graph is written:

    stablehlo.custom_call @ApproxTopK(…) {called_computations = [@larger]}        Callees({"larger": '"func.func"() …'})

What they say of shardings stays as it is, for as long as the program has any.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.carriers import CARRIED_CONSTRAINT, CARRIED_SHARDING, CARRIED_SHARDINGS
from shardwright.ir.context import context, ir, load_module
from shardwright.ir.erasing import erase
from shardwright.ir.opaque import attribute
from shardwright.ir.signature import Body, Signature
from shardwright.ir.walk import walk

__all__ = ["Callees", "called_by", "collect", "named_by", "symbols_of", "undefined"]

_CALLED = "called_computations"
_SYMBOL = re.compile(r'(@(?:"(?:[^"\\]|\\.)*"|[\w.$]+))|"(?:[^"\\]|\\.)*"', re.ASCII)
"""A symbol, or a string, in which nothing is one."""

_SHARDINGS = ("sdy.sharding", CARRIED_SHARDINGS, "mhlo.sharding")
_BOUNDARY = frozenset({"sdy.sharding", CARRIED_SHARDING, "mhlo.sharding"})
_ROWS = ("arg_attrs", "res_attrs")


@dataclass(frozen=True, slots=True)
class Callees:
    """Functions, and with each one all that it names.

    Attributes:
        functions: By name, in generic form, in the order in which their module has them.
        meshes: The meshes of their shardings by symbol, as the ops that declare them.
    """

    functions: Mapping[str, str] = field(default_factory=dict)
    meshes: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.functions)

    def of(self, names: Iterable[str]) -> Callees:
        """Those of some names, and what these name."""
        reached: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in self.functions and name not in reached:
                reached.add(name)
                left += symbols_of(self.functions[name])
        functions = {name: text for name, text in self.functions.items() if name in reached}
        symbols = {name for text in functions.values() for name in symbols_of(text)}
        return Callees(functions, {name: text for name, text in self.meshes.items() if name in symbols})

    def module(self) -> ir.Module:
        """The module of nothing else."""
        return load_module("\n".join([*self.meshes.values(), *self.functions.values()]))

    def without_shardings(self) -> Callees:
        """The same functions for a program that says nothing of shardings."""
        if not self:
            return self
        module = self.module()
        functions = {_name(view.operation): view.operation for view in module.body.operations}
        for name in self.functions:
            _strip(functions[name])
        return Callees({name: _text(functions[name]) for name in self.functions}, self.meshes).of(self.functions)


def collect(names: Iterable[str], functions: Mapping[str, Any], meshes: Mapping[str, Any]) -> Callees:
    """The functions of a module that have these names, and what they name.

    Arguments:
        names: Any symbols; those of no function are passed over.
        functions: The module's functions by name.
        meshes: The ops that declare its meshes, by symbol.
    """
    texts: dict[str, str] = {}
    left = list(names)
    while left:
        name = left.pop()
        if name in functions and name not in texts:
            texts[name] = _text(functions[name])
            left += symbols_of(texts[name])
    if not texts:
        return Callees()
    ordered = {name: texts[name] for name in functions if name in texts}
    return Callees(ordered, {name: str(op) for name, op in meshes.items()}).of(ordered)


def symbols_of(text: str) -> set[str]:
    """The symbols in an attribute, or in an op in generic form, by name: `[@a, @"b c"]` → `{"a", "b c"}`."""
    if "@" not in text:
        return set()
    return {_symbol(match[1]) for match in _SYMBOL.finditer(text) if match[1]}


def _symbol(text: str) -> str:
    return str(ir.FlatSymbolRefAttr(attribute(text)).value) if text[1] == '"' else text[1:]


def named_by(signature: Signature) -> set[str]:
    """The symbols that an op names, or one inside it that computes on scalars."""
    return {name for _, text in _attributes(signature.attributes, signature.bodies) for name in symbols_of(text)}


def called_by(signature: Signature) -> set[str]:
    """The functions that an op, or one inside it, cannot do without: `called_computations` of custom calls."""
    attributes = _attributes(signature.attributes, signature.bodies)
    return {name for key, text in attributes if key == _CALLED for name in symbols_of(text)}


def _attributes(attributes: Iterable[tuple[str, str]], bodies: Iterable[Body]) -> Iterator[tuple[str, str]]:
    yield from attributes
    for body in bodies:
        for op in body.ops:
            yield from _attributes(op.attributes, op.bodies)


def undefined(op: str, function: str, location: str) -> ShardingError:
    """The refusal of a custom call of a function that its module does not have."""
    return ShardingError(
        f"function @{function} is named by a custom call but not defined",
        op=op,
        location=location,
        cause=f"the call has it among its {_CALLED}",
        remedy="define the function in this module, or take it out of that list",
    )


def _name(op: Any) -> str:
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def _text(function: Any) -> str:
    """A function apart from its module: without aliases, and generic, for a call's target is printed like a symbol."""
    text = function.get_asm(
        print_generic_op_form=True, enable_debug_info=True, use_local_scope=True, assume_verified=True
    )
    return str(text)


def _strip(function: Any) -> None:
    """Take every word about shardings out of a function."""
    for key in _ROWS:
        if key in function.attributes:
            rows: list[Any] = [ir.DictAttr(row) for row in function.attributes[key]]
            plain = [{named.name: named.attr for named in row if named.name not in _BOUNDARY} for row in rows]
            with context():
                function.attributes[key] = ir.ArrayAttr.get([ir.DictAttr.get(row) for row in plain])
    for op in _within(function):
        for key in _SHARDINGS:
            if key in op.attributes:
                del op.attributes[key]
        if _only_says(op):
            for result in op.results:
                result.replace_all_uses_with(op.operands[0])
            erase(op)


def _within(function: Any) -> list[Any]:
    """The ops of a function."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        found.append(op)
        return ir.WalkResult.ADVANCE

    walk(function, visit, outer_first=True)
    return found[1:]


def _only_says(op: Any) -> bool:
    """Whether an op moves nothing but shards of what it is given, if that."""
    named = op.name == CARRIED_CONSTRAINT or (op.name.startswith("sdy.") and op.name != "sdy.return")
    return named and len(op.operands) == 1 and len(op.results) <= 1 and not len(op.regions)
