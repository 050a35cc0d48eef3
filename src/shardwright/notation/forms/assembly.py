"""The declarative assembly format of an op, compiled once into steps that read and print.

    $input `on` $grid (`grid_axes` `=` $grid_axes^)? attr-dict `:` type($input) `->` type($result)

Literals stand in backquotes. A group `( … )?` is there where its first literal is, and is printed where the element
marked `^` has something to say. Spaces are printed as MLIR's generated printers do.

Source: MLIR's "Operation Definition Specification", declarative assembly format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.dictionary import print_dictionary, read_dictionary
from shardwright.notation.forms.form import Attribute, Operand, OpForm, OpText
from shardwright.notation.forms.kinds import DYNAMIC

__all__ = ["Printing", "OpReading", "FormatElement", "assembly", "index_lists", "operand_slices", "result_slices"]

_ELEMENT = re.compile(
    r"\s*(?:`(?P<literal>[^`]+)`|(?P<attr_dict>attr-dict)|(?P<function>functional-type\(operands, results\))"
    r"|type\(\$?(?P<type>\w+)\)|custom<DynamicIndexList>\(\$(?P<dynamic>\w+), \$(?P<static>\w+)\)"
    r"|custom<DimensionList>\(\$(?P<dims>\w+)\)|\$(?P<name>\w+)|(?P<open>\()|(?P<close>\)\?)|(?P<anchor>\^))"
)


@dataclass(slots=True)
class OpReading:
    """What has been read of an op so far; `types` by the name that the format gives them."""

    form: OpForm
    cursor: Cursor
    attributes: dict[str, Any] = field(default_factory=dict)
    operands: dict[str, tuple[str, ...]] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    extra: dict[str, str | None] = field(default_factory=dict)


class Printing:
    """Text put together with the spaces that MLIR puts."""

    __slots__ = ("_after_punctuation", "_space", "op", "parts")

    def __init__(self, op: OpText) -> None:
        """Print an op whose name is already there."""
        self.op = op
        self.parts: list[str] = []
        self._space = True
        self._after_punctuation = False

    def literal(self, word: str) -> None:
        """A keyword or punctuation."""
        if len(word) > 1 and word != "->":
            spaced = True
        else:
            spaced = word[0] not in (">)}]," if self._after_punctuation else "<>(){}[],")
        self.parts.append(f" {word}" if self._space and spaced else word)
        self._space = len(word) != 1 or word not in "<({["
        self._after_punctuation = not (word[0] == "_" or word[0].isalpha())

    def value(self, text: str) -> None:
        """An operand, attribute or type."""
        if text:
            self.parts.append(f" {text}" if self._space or not self._after_punctuation else text)
            self._space, self._after_punctuation = True, False


class FormatElement(Protocol):
    """One element of a format."""

    def read(self, into: OpReading) -> None:
        """Take it from the text."""

    def print(self, out: Printing) -> None:
        """Put it into the text."""

    def present(self, op: OpText) -> bool:
        """Whether it has something to say: what the anchor of a group asks."""

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        """Whether it is next in the text: what a group asks its first element."""


@dataclass(frozen=True, slots=True)
class _Literal:
    word: str

    def read(self, into: OpReading) -> None:
        if not self.begins(into.cursor, into.form):
            into.cursor.refuse(f"expected '{self.word}'")
        into.cursor.take()

    def print(self, out: Printing) -> None:
        out.literal(self.word)

    def present(self, op: OpText) -> bool:
        return True

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        token = cursor.peek()
        return token == self.word or form.synonyms.get(token) == self.word


@dataclass(frozen=True, slots=True)
class _Attribute:
    attribute: Attribute

    def read(self, into: OpReading) -> None:
        into.attributes[self.attribute.name] = self.attribute.kind.read(into.cursor)

    def print(self, out: Printing) -> None:
        out.value(self.attribute.kind.print(out.op.attributes[self.attribute.name]))

    def present(self, op: OpText) -> bool:
        value = op.attributes[self.attribute.name]
        return value is not None and value != self.attribute.default

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        first = cursor.peek()[:1]
        return bool(first) and first in self.attribute.kind.starts


@dataclass(frozen=True, slots=True)
class _Operand:
    operand: Operand

    def read(self, into: OpReading) -> None:
        values = [into.cursor.value()] if self.operand.count == "one" or self.begins(into.cursor, into.form) else []
        while self.operand.count == "variadic" and values and into.cursor.accept(","):
            values.append(into.cursor.value())
        into.operands[self.operand.name] = tuple(values)

    def print(self, out: Printing) -> None:
        out.value(", ".join(out.op.operands[self.operand.name]))

    def present(self, op: OpText) -> bool:
        return bool(op.operands[self.operand.name])

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return cursor.peek().startswith("%")


@dataclass(frozen=True, slots=True)
class _IndexList:
    """`[1, %h]`: numbers, and operands for those that are known at run time only."""

    dynamic: Operand
    static: Attribute

    def read(self, into: OpReading) -> None:
        cursor = into.cursor
        cursor.take("[")
        numbers: list[int] = []
        values: list[str] = []
        while not cursor.accept("]"):
            if numbers:
                cursor.take(",")
            if cursor.peek() == "?":
                cursor.refuse("expected a number or SSA operand", "give the operand that holds the value")
            if cursor.peek().startswith("%"):
                values.append(cursor.value())
                numbers.append(DYNAMIC)
            else:
                numbers.append(cursor.integer())
        into.attributes[self.static.name] = tuple(numbers)
        into.operands[self.dynamic.name] = tuple(values)

    def print(self, out: Printing) -> None:
        values = iter(out.op.operands[self.dynamic.name])
        numbers = out.op.attributes[self.static.name]
        out.value(f"[{', '.join(next(values) if number == DYNAMIC else str(number) for number in numbers)}]")

    def present(self, op: OpText) -> bool:
        value = op.attributes[self.static.name]
        return value is not None and value != self.static.default

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return cursor.peek() == "["


@dataclass(frozen=True, slots=True)
class _Type:
    name: str

    def read(self, into: OpReading) -> None:
        into.types[self.name] = into.cursor.types() if _many(into.form, self.name) else (into.cursor.type(),)

    def print(self, out: Printing) -> None:
        out.value(", ".join(self._types(out.op)))

    def present(self, op: OpText) -> bool:
        """Whether the types are other than those inferred: what is spelled only where it must be."""
        at = next((k for k, name in enumerate(op.form.results) if name.rstrip("*") == self.name), None)
        inferred = op.form.result_types[at] if at is not None and at < len(op.form.result_types) else ""
        if inferred.startswith("$"):
            return self._types(op) != op.operand_types[operand_slices(op.form, op.operands)[inferred[1:]]]
        return self._types(op) != (inferred,)

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return cursor.at_type()

    def _types(self, op: OpText) -> tuple[str, ...]:
        if self.name in ("operands", "results"):
            return op.operand_types if self.name == "operands" else op.result_types
        operands = operand_slices(op.form, op.operands)
        if self.name in operands:
            return op.operand_types[operands[self.name]]
        return op.result_types[result_slices(op.form, len(op.result_types))[self.name]]


@dataclass(frozen=True, slots=True)
class _FunctionType:
    def read(self, into: OpReading) -> None:
        into.types["operands"], into.types["results"] = into.cursor.function_type()

    def print(self, out: Printing) -> None:
        results = out.op.result_types
        to = results[0] if len(results) == 1 else f"({', '.join(results)})"
        out.value(f"({', '.join(out.op.operand_types)}) -> {to}")

    def present(self, op: OpText) -> bool:
        return True

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return cursor.peek() == "("


@dataclass(frozen=True, slots=True)
class _AttrDict:
    bound: frozenset[str]
    """Attributes that the rest of the format spells."""

    def read(self, into: OpReading) -> None:
        if into.cursor.peek() == "{":
            read_dictionary(into.cursor, into.form, self.bound, into.attributes, into.extra)

    def print(self, out: Printing) -> None:
        out.value(print_dictionary(out.op, self.bound))

    def present(self, op: OpText) -> bool:
        return True

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return cursor.peek() == "{"


@dataclass(frozen=True, slots=True)
class _FormatGroup:
    steps: tuple[FormatElement, ...]
    anchor: FormatElement

    def read(self, into: OpReading) -> None:
        if self.begins(into.cursor, into.form):
            for step in self.steps:
                step.read(into)

    def print(self, out: Printing) -> None:
        if self.present(out.op):
            for step in self.steps:
                step.print(out)

    def present(self, op: OpText) -> bool:
        return self.anchor.present(op)

    def begins(self, cursor: Cursor, form: OpForm) -> bool:
        return self.steps[0].begins(cursor, form)


@lru_cache(maxsize=1024)
def assembly(form: OpForm) -> tuple[FormatElement, ...]:
    """The steps of a form's assembly format.

    Raises:
        ValueError: the format is not in the language; a mistake in the table.
    """
    bound = frozenset(re.findall(r"\$(\w+)", form.assembly))
    open_groups: list[tuple[list[FormatElement], list[FormatElement]]] = []
    steps: list[FormatElement] = []
    anchors: list[FormatElement] = []
    at = 0
    text = form.assembly.strip()
    while at < len(text):
        match = _ELEMENT.match(text, at)
        if match is None:
            raise ValueError(f"the assembly format of {form.name} is not understood at {text[at : at + 40]!r}")
        at = match.end()
        if match["open"]:
            open_groups.append((steps, anchors))
            steps, anchors = [], []
        elif match["anchor"]:
            anchors.append(steps[-1])
        elif match["close"]:
            group = _FormatGroup(tuple(steps), anchors[0])
            steps, anchors = open_groups.pop()
            steps.append(group)
        else:
            steps.append(_element(form, match, bound))
    return tuple(steps)


def _element(form: OpForm, match: re.Match[str], bound: frozenset[str]) -> FormatElement:
    attributes = {attribute.name: attribute for attribute in form.attributes}
    operands = {operand.name: operand for operand in form.operands}
    if match["literal"]:
        return _Literal(match["literal"])
    if match["attr_dict"]:
        return _AttrDict(bound)
    if match["function"]:
        return _FunctionType()
    if match["type"]:
        return _Type(match["type"])
    if match["dynamic"]:
        return _IndexList(operands[match["dynamic"]], attributes[match["static"]])
    name = match["dims"] or match["name"]
    return _Operand(operands[name]) if name in operands else _Attribute(attributes[name])


@lru_cache(maxsize=1024)
def index_lists(form: OpForm) -> tuple[tuple[str, str], ...]:
    """The operands and the attribute of each list of indices in the format."""
    return tuple(re.findall(r"custom<DynamicIndexList>\(\$(\w+), \$(\w+)\)", form.assembly))


def _many(form: OpForm, name: str) -> bool:
    if name in ("operands", "results") or f"{name}*" in form.results:
        return True
    return any(operand.name == name and operand.count == "variadic" for operand in form.operands)


def operand_slices(form: OpForm, operands: Mapping[str, tuple[str, ...]]) -> dict[str, slice]:
    """Where in the list of all operands each group of them stands."""
    slices: dict[str, slice] = {}
    start = 0
    for operand in form.operands:
        end = start + len(operands[operand.name])
        slices[operand.name] = slice(start, end)
        start = end
    return slices


def result_slices(form: OpForm, count: int) -> dict[str, slice]:
    """Where in the list of all `count` results each named one stands; one of them may be of any number."""
    slices: dict[str, slice] = {}
    start = 0
    for name in form.results:
        end = start + (count - len(form.results) + 1 if name.endswith("*") else 1)
        slices[name.rstrip("*")] = slice(start, end)
        start = end
    return slices
