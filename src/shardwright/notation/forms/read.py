"""One op of a text, in custom syntax or in MLIR's generic form, read by the table of its dialect.

Source: MLIR's language reference, operations and their generic form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from shardwright.errors import ShardingError
from shardwright.notation.forms.assembly import OpReading, assembly, index_lists, result_slices
from shardwright.notation.forms.cursor import Cursor, NamedText
from shardwright.notation.forms.dictionary import read_dictionary
from shardwright.notation.forms.form import OpForm, OpText
from shardwright.notation.forms.kinds import DYNAMIC, I32_ARRAY

__all__ = ["normalise", "read_op", "with_types"]

_SEGMENTS = "operandSegmentSizes"


def read_op(form: OpForm, source: NamedText, start: int, text: str = "") -> tuple[OpText, int]:
    """The op whose name, quoted or not, stands at `start`, without its results and location; and where it ends.

    Where `text` is given it is read instead of the source, from its beginning.

    Raises:
        ShardingError: malformed syntax, a missing attribute, or counts of operands and results that do not fit.
    """
    cursor = Cursor(text or source.text, 0 if text else start, None if text else source, form.name)
    position = source.where(start)
    generic = cursor.peek().startswith('"')
    cursor.take()
    reading = OpReading(form, cursor)
    if generic:
        _read_generic(reading, position)
    else:
        for step in assembly(form):
            step.read(reading)
    return _complete(reading, position), cursor.at


def _read_generic(reading: OpReading, position: str) -> None:
    cursor, form = reading.cursor, reading.form
    cursor.take("(")
    names: list[str] = []
    while not cursor.accept(")"):
        if names:
            cursor.take(",")
        names.append(cursor.value())
    nothing = frozenset[str]()
    if cursor.accept("<"):
        read_dictionary(cursor, form, nothing, reading.attributes, reading.extra)
        cursor.take(">")
    if cursor.peek() == "(":
        cursor.refuse("the op has no regions")
    if cursor.peek() == "{":
        read_dictionary(cursor, form, nothing, reading.attributes, reading.extra)
    cursor.take(":")
    reading.types["operands"], reading.types["results"] = cursor.function_type()
    counts = _segments(reading, len(names), position)
    rest = iter(names)
    reading.operands = {
        operand.name: tuple(next(rest) for _ in range(count))
        for operand, count in zip(form.operands, counts, strict=True)
    }


def _segments(reading: OpReading, total: int, position: str) -> tuple[int, ...]:
    """How many operands each group has."""
    form = reading.form
    text = reading.extra.pop(_SEGMENTS, None)
    if text is not None:
        given: tuple[int, ...] = I32_ARRAY.decode(text)
        if len(given) != len(form.operands) or min(given, default=0) < 0 or sum(given) != total:
            _refuse(form, position, f"operandSegmentSizes {list(given)} do not fit {total} operands")
        return given
    fixed = sum(operand.count == "one" for operand in form.operands)
    free = len(form.operands) - fixed
    if free > 1 and total > fixed:
        _refuse(form, position, f"has {total} operands but no operandSegmentSizes")
    if total < fixed or (total > fixed and not free):
        _refuse(form, position, f"expected {fixed} operands, but found {total}")
    return tuple(1 if operand.count == "one" else total - fixed for operand in form.operands)


def _complete(reading: OpReading, position: str) -> OpText:
    """The op with defaults filled in and all types known."""
    form = reading.form
    attributes = _attributes(reading, position)
    operands = {operand.name: reading.operands.get(operand.name, ()) for operand in form.operands}
    for operand in form.operands:
        count = len(operands[operand.name])
        if (operand.count == "one" and count != 1) or (operand.count == "optional" and count > 1):
            _refuse(form, position, f"expected {operand.count} operand '{operand.name}', but found {count}")
    count = sum(map(len, operands.values()))
    results = _results(reading, position)
    operand_types = reading.types.get("operands")
    if operand_types is None:
        operand_types = _operand_types(reading, operands, results)
    if len(operand_types) != count:
        _refuse(form, position, f"expected {count} operand types, but found {len(operand_types)}")
    op = OpText(form, (), operands, attributes, operand_types, results, reading.extra, position=position)
    _check_lists(op)
    return op


def _attributes(reading: OpReading, position: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for attribute in reading.form.attributes:
        value = reading.attributes.get(attribute.name, attribute.default)
        if value is None and not attribute.optional:
            _refuse(
                reading.form, position, f"requires attribute '{attribute.key}'", f"give it: it is {attribute.kind.name}"
            )
        attributes[attribute.name] = value
    return attributes


def _results(reading: OpReading, position: str) -> tuple[str, ...]:
    form = reading.form
    given = reading.types.get("results")
    if given is None:
        types: list[str] = []
        for index, name in enumerate(form.results):
            plain = name.rstrip("*")
            types += reading.types.get(plain) or _inferred(reading, index)
        given = tuple(types)
    fixed = len(form.results)
    many = any(name.endswith("*") for name in form.results)
    if len(given) < fixed - many or (len(given) > fixed and not many):
        _refuse(form, position, f"expected {fixed} results, but found {len(given)}", "give one type for each result")
    return given


def _inferred(reading: OpReading, index: int) -> tuple[str, ...]:
    types = reading.form.result_types
    if index >= len(types):
        return ()
    return reading.types.get(types[index][1:], ()) if types[index].startswith("$") else (types[index],)


def _operand_types(
    reading: OpReading, operands: Mapping[str, tuple[str, ...]], results: tuple[str, ...]
) -> tuple[str, ...]:
    slices = result_slices(reading.form, len(results))
    types: list[str] = []
    for operand in reading.form.operands:
        count = len(operands[operand.name])
        spelled = reading.types.get(operand.name)
        if spelled is not None:
            types += spelled
        elif operand.type.startswith("$"):
            types += results[slices[operand.type[1:]]] * count
        else:
            types += [operand.type] * count
    return tuple(types)


def _check_lists(op: OpText) -> None:
    """Each dynamic entry of a list of indices has its operand."""
    for dynamic, static in index_lists(op.form):
        given, needed = len(op.operands[dynamic]), (op.attributes[static] or ()).count(DYNAMIC)
        if given != needed:
            _refuse(op.form, op.position, f"has {given} operands '{dynamic}' for {needed} dynamic values of '{static}'")


def normalise(op: OpText, forms: Mapping[str, OpForm], types: Mapping[str, str]) -> OpText:
    """The op as it is called today, with today's names of types.

    An op of an earlier generation keeps its name where it says what today's cannot.
    """
    op = with_types(op, types)
    newest = forms.get(op.form.renamed)
    if newest is None:
        return op
    names = {attribute.name for attribute in newest.attributes}
    if any(op.attributes[a.name] not in (None, a.default) for a in op.form.attributes if a.name not in names):
        return op
    attributes = {a.name: op.attributes.get(a.name, a.default) for a in newest.attributes}
    return replace(op, form=newest, attributes=attributes)


def with_types(op: OpText, types: Mapping[str, str]) -> OpText:
    """The op with the types that are keys of `types` renamed."""
    if not any(type_ in types for type_ in (*op.operand_types, *op.result_types)):
        return op
    return replace(
        op,
        operand_types=tuple(types.get(type_, type_) for type_ in op.operand_types),
        result_types=tuple(types.get(type_, type_) for type_ in op.result_types),
    )


def _refuse(form: OpForm, position: str, what: str, remedy: str = "") -> NoReturn:
    raise ShardingError(
        f"'{form.name}' op {what}",
        op=form.name,
        location=position,
        remedy=remedy or f"write it as {' '.join(form.assembly.split())}",
    )
