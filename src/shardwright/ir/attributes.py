"""MLIR attribute text ↔ plain Python values.

Signatures carry attributes as text, so that they can be compared, hashed and written without MLIR handles; `decode`
reads the text where an engine needs the numbers in it.

    >>> (
    ...     decode("array<i64: 1, 2>"),
    ...     decode("3 : i64"),
    ...     decode("#stablehlo.gather<offset_dims = [1], index_vector_dim = 1>"),
    ... )
    ((1, 2), 3, {'offset_dims': (1,), 'index_vector_dim': 1})
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from shardwright.memo import memoize
from shardwright.scanner import Scanner

__all__ = ["bools", "decode", "i64_array", "i64_tensor", "integer"]


@memoize
def decode(text: str) -> Any:
    """The value that attribute `text` holds: int, float, bool, str, tuple, dict, or the text itself.

    Integers and floats lose their type; hexadecimal floats (infinities) stay text; dense and `array<>` attributes
    become (nested) tuples, a splat its one value; dialect structs (`#stablehlo.dot<…>`) become dicts; enumerations
    (`#stablehlo<precision DEFAULT>`) their last word.
    """
    if text.startswith("#opaque"):
        return text
    reader = _AttributeReader(text)
    return reader.value()


class _AttributeReader(Scanner):
    """Reads what MLIR prints; of text that it would not print, it makes what it can."""

    TOKEN = re.compile(
        r"""\s*(
            "(?:[^"\\]|\\.)*"
          | 0x[0-9A-Fa-f]+
          | -?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?
          | [A-Za-z_\#@!][\w.$\#@]*
          | ->
          | \S
        )""",
        re.VERBOSE | re.DOTALL,
    )

    def next(self) -> str:
        """The next token, taken; at the end nothing, however often."""
        token = self.tokens[self.at]
        if token:
            self.at += 1
        return token

    def value(self) -> Any:
        text = self.next()
        if _is_string(text):
            return re.sub(r"\\(.)", r"\1", text[1:-1])
        if _is_number(text):
            self.skip_type()
            return float(text) if any(c in text for c in ".eE") else int(text)
        if text == "[":
            return tuple(self.items("]"))
        if text == "(":
            return self.group()
        if text == "{":
            return dict(self.fields("}"))
        if text in ("true", "false"):
            return text == "true"
        if text == "unit":
            return True
        if text in ("array", "dense") and self.peek() == "<":
            return self.elements(text)
        if text.startswith("#") and self.peek() == "<":
            return self.struct()
        return text.removeprefix("@")

    def group(self) -> Any:
        """`(a, b)`, and `(pre)size` of a sub-axis as `(pre, size)`."""
        items = tuple(self.items(")"))
        return (*items, self.value()) if len(items) == 1 and _is_number(self.peek()) else items

    def elements(self, kind: str) -> Any:
        self.next()
        if kind == "array":
            self.next()
            self.accept(":")
            return tuple(self.items(">"))
        inner = tuple(self.items(">"))
        self.skip_type()
        return inner[0] if len(inner) == 1 else inner

    def struct(self) -> Any:
        self.next()
        if self.accept(">"):
            return {}
        if self.peek() and self.tokens[self.at + 1] == "=":
            return dict(self.fields(">"))
        words: list[Any] = []
        while self.peek() not in (">", ""):
            words.append(self.value())
            self.accept(",")
        self.next()
        return words[-1]

    def items(self, end: str) -> Iterator[Any]:
        while self.peek() not in (end, ""):
            yield self.value()
            self.accept(",")
        self.next()

    def fields(self, end: str) -> Iterator[tuple[str, Any]]:
        while self.peek() not in (end, ""):
            name = self.next()
            name = name[1:-1] if _is_string(name) else name
            if self.accept("="):
                yield name, self.value()
            else:
                yield name, True
            self.accept(",")
        self.next()

    def skip_type(self) -> None:
        if not self.accept(":"):
            return
        self.next()
        if self.peek() == "<":
            depth = 0
            while self.peek():
                depth += {"<": 1, ">": -1}.get(self.next(), 0)
                if depth == 0:
                    return


def _is_string(token: str) -> bool:
    return len(token) > 1 and token[0] == '"'


def _is_number(token: str) -> bool:
    return token[-1:].isdecimal() and (token[0] == "-" or token[0].isdecimal()) and not token.startswith("0x")


def i16_array(values: Iterable[int]) -> str:
    """`array<i16: 1, 2>`."""
    return i64_array(values).replace("i64", "i16", 1)


def i64_array(values: Iterable[int]) -> str:
    """`array<i64: 1, 2>`."""
    items = ", ".join(map(str, values))
    return f"array<i64: {items}>" if items else "array<i64>"


def bools(values: Iterable[bool]) -> str:
    """`array<i1: true, false>`."""
    items = ", ".join("true" if value else "false" for value in values)
    return f"array<i1: {items}>" if items else "array<i1>"


def integer(value: int, dtype: str = "i64") -> str:
    """`3 : i64`."""
    return f"{value} : {dtype}"


def i64_tensor(rows: Iterable[Iterable[int]]) -> str:
    """`dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`."""
    table = [list(row) for row in rows]
    width = len(table[0]) if table else 0
    return f"dense<{table}> : tensor<{len(table)}x{width}xi64>"
