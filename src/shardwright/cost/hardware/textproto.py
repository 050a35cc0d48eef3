"""Messages in the text format of protocol buffers, as plain values, whatever their schema.

A field is a list: of numbers, texts, names (as texts) and messages, in the order in which they stand.

    >>> parse_message('name: "a"  rate { key: 16 ops: 512 }  rate { key: 11 } dims: [1, 2]', "spec")
    {'name': ['a'], 'rate': [{'key': [16], 'ops': [512]}, {'key': [11]}], 'dims': [1, 2]}

Source: the specification of the Protocol Buffer text format; of it, comments, lists, both kinds of brackets and quotes,
and strings in parts. Extensions and `Any` are not read.
"""

from __future__ import annotations

import re
from ast import literal_eval
from typing import NoReturn, TypeAlias, Union

from shardwright.errors import ShardingError
from shardwright.scanner import Scanner, place_of

__all__ = ["Message", "Value", "parse_message"]

Value: TypeAlias = Union[int, float, str, "Message"]
Message: TypeAlias = dict[str, list[Value]]

_CLOSING = {"{": "}", "<": ">"}
_DEEPEST = 100
"""Messages within messages; none of XLA's goes half as deep."""


def parse_message(text: str, location: str) -> Message:
    """A message.

    Arguments:
        text: As the text format has it.
        location: What diagnostics call it.

    Raises:
        ShardingError: text of another form; with its line.
    """
    return _Reader(text, location).message("", 0)


class _Reader(Scanner):
    __slots__ = ("location",)

    TOKEN = re.compile(
        r"(?:\s|\#[^\n]*)*+("
        r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
        r"|[A-Za-z_]\w*|-?(?:\d|\.\d)(?:[\w.]|(?<=[eE])[+-])*|-?inf\b|-?nan\b|\S|\Z)"
    )
    WHAT = "text proto"

    def __init__(self, text: str, location: str) -> None:
        super().__init__(text)
        self.location = location

    def message(self, closing: str, depth: int) -> Message:
        """Fields up to and with what closes them."""
        if depth > _DEEPEST:
            self.refuse("nested too deeply")
        fields: Message = {}
        while self.peek() != closing:
            name = self.take()
            if not name.isidentifier():
                self.at -= 1
                self.refuse("expected the name of a field")
            has_colon = self.accept(":")
            if not has_colon and self.peek() not in (*_CLOSING, "["):
                self.refuse("expected ':'")
            fields.setdefault(name, []).extend(self.values(depth))
            _ = self.accept(",") or self.accept(";")
        if closing:
            self.take(closing)
        return fields

    def values(self, depth: int) -> list[Value]:
        """What stands behind the name of a field: one value, or a list of them."""
        if self.accept("["):
            return self.separated("]", lambda: self.value(depth))
        return [self.value(depth)]

    def value(self, depth: int) -> Value:
        """A message, a text, a number or a name."""
        token = self.take()
        if token in _CLOSING:
            return self.message(_CLOSING[token], depth + 1)
        if token[0] in "\"'":
            parts = [token]
            while self.peek()[:1] in ("'", '"') and self.peek():
                parts.append(self.take())
            return "".join(_unquoted(part) for part in parts)
        if token[0].isdigit() or token[0] in "-.":
            return self.number(token)
        if token.isidentifier():
            return token
        self.at -= 1
        self.refuse("expected a value")

    def number(self, token: str) -> int | float:
        try:
            if re.fullmatch(r"-?(\d+|0[xX][0-9a-fA-F]+)", token):
                return int(token, 0)
            return float(token.removesuffix("f") if token[-2:-1].isdigit() else token)
        except ValueError:
            self.at -= 1
            self.refuse("expected a number")

    def refuse(self, cause: str, remedy: str = "") -> NoReturn:
        """Raise, naming the next token and its line."""
        token = self.peek()
        place = place_of(self.text, min(self.column() - 1, len(self.text)), self.location)
        raise ShardingError(
            "malformed text proto",
            location=place,
            cause=f"{cause}; {f'got {token[:40]!r}' if token else 'the text ends'}",
            remedy=remedy or "give a file as XLA writes and keeps them",
        )


def _unquoted(token: str) -> str:
    """A string; its escapes are among Python's."""
    try:
        return str(literal_eval(token))
    except (SyntaxError, ValueError):
        return token[1:-1]
