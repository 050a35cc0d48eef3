"""The kinds of attributes that the tables of op forms use, in custom syntax and as MLIR attribute text.

    kind          custom syntax    generic form
    SYMBOL        @g               @g
    INDEX         1                1 : index
    I16_ARRAY     [0, 1]           array<i16: 0, 1>
    DIMS          2x?x4            array<i64: 2, -9223372036854775808, 4>
    AXES          [[0], [], [1]]   #shard<axisarray[[0], [], [1]]>
    REDUCTION     max              #shard<partial max>

Source: MLIR's language reference (attribute values) and the attributes of its `shard` and `mesh` dialects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from shardwright.notation.forms.cursor import Cursor
from shardwright.notation.forms.form import AttributeKind
from shardwright.notation.names import quoted, symbol_text, unquoted

__all__ = [
    "AXES",
    "BOOL",
    "DIMS",
    "DYNAMIC",
    "I16_ARRAY",
    "I32_ARRAY",
    "I64",
    "I64_ARRAY",
    "I64_LISTS",
    "INDEX",
    "MESH_AXES",
    "MESH_REDUCTION",
    "REDUCTION",
    "REDUCTIONS",
    "STRING",
    "SYMBOL",
    "SYMBOL_NAME",
    "UNIT",
]

DYNAMIC = -(1 << 63)
"""Stands in a static list for a size that an operand gives, and in a shape for `?`."""

REDUCTIONS = ("sum", "max", "min", "product", "average", "bitwise_and", "bitwise_or", "bitwise_xor", "generic")

_DIMENSION = re.compile(r"[0-9]+|\?")


def _numbers(values: Iterable[int]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _lists(values: Iterable[Iterable[int]]) -> str:
    return f"[{', '.join(map(_numbers, values))}]"


def _whole(read: Callable[[Cursor], Any]) -> Callable[[str], Any]:
    """A decoder: what `read` takes, to the end of the text."""

    def decode(text: str) -> Any:
        cursor = Cursor(text)
        value = read(cursor)
        cursor.end()
        return value

    return decode


def _typed(suffix: str) -> Callable[[Cursor], int]:
    def read(cursor: Cursor) -> int:
        value = cursor.integer()
        if cursor.accept(":"):
            cursor.take(suffix)
        return value

    return read


def _read_integer(cursor: Cursor) -> int:
    return cursor.integer()


def _read_string(cursor: Cursor) -> str:
    if not cursor.peek().startswith('"') or cursor.peek() == '"':
        cursor.refuse("expected a string")
    return unquoted(cursor.take())


SYMBOL = AttributeKind("a symbol", Cursor.symbol, symbol_text, symbol_text, _whole(Cursor.symbol), starts="@")
SYMBOL_NAME = AttributeKind(
    "the name of a symbol", Cursor.symbol, symbol_text, quoted, _whole(_read_string), starts="@"
)
INDEX = AttributeKind(
    "a number", _read_integer, str, "{} : index".format, _whole(_typed("index")), starts="-0123456789"
)
I64 = AttributeKind("a number", _read_integer, str, "{} : i64".format, _whole(_typed("i64")), starts="-0123456789")


def _array(bits: int, what: str) -> AttributeKind:
    def read(cursor: Cursor) -> tuple[int, ...]:
        return cursor.integers(bits)

    def decode(cursor: Cursor) -> tuple[int, ...]:
        if cursor.peek() == "[":
            return cursor.integers(bits)
        for token in ("array", "<", f"i{bits}"):
            cursor.take(token)
        if cursor.accept(">"):
            return ()
        cursor.take(":")
        return cursor.numbers_to(">", bits)

    def generic(values: tuple[int, ...]) -> str:
        return f"array<i{bits}: {', '.join(map(str, values))}>" if values else f"array<i{bits}>"

    return AttributeKind(what, read, _numbers, generic, _whole(decode), starts="[")


I16_ARRAY = _array(16, "a list of axes")
I32_ARRAY = _array(32, "a list of numbers")
I64_ARRAY = _array(64, "a list of numbers")


def _read_lists(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
    return cursor.lists()


I64_LISTS = AttributeKind("a list of lists of numbers", _read_lists, _lists, _lists, _whole(_read_lists), starts="[")


def _wrapped(cursor: Cursor, what: str) -> bool:
    """Whether the value stands in `#shard.what<…>`, or `#shard<what …>` as MLIR prints it; it is then opened."""
    if not cursor.accept("#"):
        return False
    if cursor.accept("mesh") or cursor.accept("shard"):
        cursor.take("<")
        cursor.take(what)
        return True
    if not cursor.accept(f"mesh.{what}"):
        cursor.take(f"shard.{what}")
    cursor.take("<")
    return True


def _axes(dialect: str) -> AttributeKind:
    def read(cursor: Cursor) -> tuple[tuple[int, ...], ...]:
        wrapped = _wrapped(cursor, "axisarray")
        value = cursor.lists(16)
        if wrapped:
            cursor.take(">")
        return value

    def generic(value: Iterable[Iterable[int]]) -> str:
        return f"#{dialect}<axisarray{_lists(value)}>"

    return AttributeKind("a list of axes for each dimension", read, _lists, generic, _whole(read), starts="[#")


AXES = _axes("shard")
MESH_AXES = _axes("mesh")


def _reduction(dialect: str) -> AttributeKind:
    def read(cursor: Cursor) -> str:
        wrapped = _wrapped(cursor, "partial") or cursor.accept("<")
        if cursor.peek() not in REDUCTIONS:
            cursor.refuse("expected a reduction kind", f"one of {', '.join(REDUCTIONS)}")
        value = cursor.take()
        if wrapped:
            cursor.take(">")
        return value

    return AttributeKind("a reduction kind", read, str, f"#{dialect}<partial {{}}>".format, _whole(read))


REDUCTION = _reduction("shard")
MESH_REDUCTION = _reduction("mesh")


def _read_dims(cursor: Cursor) -> tuple[int, ...]:
    if cursor.peek() == "[":
        return cursor.integers()
    sizes: list[int] = []
    while not sizes or cursor.text.startswith("x", cursor.at):
        if sizes:
            cursor.at += 1
        sizes.append(_dimension(cursor))
    return tuple(sizes)


def _dimension(cursor: Cursor) -> int:
    start = cursor.at
    token = cursor.match(_DIMENSION)
    if not token:
        cursor.refuse("Failed parsing dimension list", "write sizes with x between them: 2x4, or 2x? where unknown")
    if token != "?" and int(token[:20]) >= 2**63:
        cursor.at = start
        cursor.refuse("the size does not fit in 64 bits")
    return DYNAMIC if token == "?" else int(token)


def _print_dims(sizes: tuple[int, ...]) -> str:
    return "x".join("?" if size == DYNAMIC else str(size) for size in sizes) or "[]"


DIMS = AttributeKind("sizes, as in 2x?x4", _read_dims, _print_dims, I64_ARRAY.generic, I64_ARRAY.decode)


def _read_unit(cursor: Cursor) -> bool:
    del cursor
    return True


def _decode_unit(text: str) -> bool:
    if text not in ("", "unit"):
        Cursor(text).refuse("expected no value", "write the name alone")
    return True


def _nothing(value: bool) -> str:
    del value
    return ""


UNIT = AttributeKind("a mark", _read_unit, _nothing, _nothing, _decode_unit)


def _read_bool(cursor: Cursor) -> bool:
    if cursor.peek() not in ("true", "false"):
        cursor.refuse("expected `true` or `false`")
    return cursor.take() == "true"


def _print_bool(value: bool) -> str:
    return "true" if value else "false"


BOOL = AttributeKind("true or false", _read_bool, _print_bool, _print_bool, _whole(_read_bool))


STRING = AttributeKind("a string", _read_string, quoted, quoted, _whole(_read_string), starts='"')
