r"""Names in MLIR text: strings with their escapes, and symbols.

    >>> print(quoted('a"]'), unquoted(r'"a\22]"'), symbol_text("my mesh"), symbol_name('@"my mesh"'))
    "a\22]" a"] @"my mesh" my mesh

Source: MLIR's language reference, "Identifiers and keywords": strings escape by two hexadecimal digits, a bare symbol
is a letter or `_` followed by letters, digits, `_`, `$` and `.`.
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError

__all__ = ["STRING", "SYMBOL", "quoted", "symbol_name", "symbol_text", "unquoted"]

STRING = r'"(?:[^"\\\n]|\\.)*"'
"""A pattern for one string with its quotes."""

SYMBOL = rf"@(?:{STRING}|[A-Za-z_][A-Za-z0-9_$.]*)"
"""A pattern for one symbol, which MLIR wants in quotes where it is not plain."""

_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_SPECIAL = re.compile(rb'[^\x20-\x7e]|["\\]')
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_LETTERS = {b"n": b"\n", b"t": b"\t"}


def unquoted(text: str) -> str:
    """The name that a string in quotes stands for; text without quotes as it is."""
    inner = text[1:-1] if text[:1] == '"' else text
    if "\\" not in inner:
        return inner
    data = _ESCAPE.sub(_unescaped, inner.encode("utf-8", "surrogatepass"))
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # bytes that are no text, which MLIR allows
        return data.decode("utf-8", "surrogateescape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 16)]) if len(code) == 2 else _LETTERS.get(code, code)


def quoted(name: str) -> str:
    """The name as MLIR prints a string: in quotes, with what is not plain ASCII as hexadecimal digits.

    Raises:
        ShardingError: a name that is not text: it has half of a pair of surrogates.
    """
    try:
        data = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ShardingError(
            f"the name {name[:200]!r} cannot be written",
            cause=f"its character {error.start} is half of a pair of surrogates, which no encoding has",
            remedy="rename it",
        ) from None
    return f'"{_SPECIAL.sub(_escaped, data).decode("ascii")}"'


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\\\" if match[0] == b"\\" else b"\\%02X" % match[0][0]


def symbol_text(name: str) -> str:
    """`@mesh`, in quotes where MLIR wants them."""
    return f"@{name}" if _BARE.fullmatch(name) else f"@{quoted(name)}"


def symbol_name(text: str) -> str:
    """The name that a symbol stands for."""
    return unquoted(text.removeprefix("@"))
