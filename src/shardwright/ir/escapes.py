r"""Strings of a module whose escapes are no UTF-8: `"\FF"`.

As values of attributes they are in use (`backend_config` holds bytes), but MLIR's bindings end the process when a
diagnostic quotes one. So names must be text, and a module with such a string is first parsed without them.
"""

from __future__ import annotations

import re

from shardwright.errors import ShardingError
from shardwright.ir.pairs import lines, pairs

__all__ = ["without_bytes"]

_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|//[^\n]*')
_BEFORE_NAME = re.compile(rb"(?:@|\bsym_name\s*=\s*|^\s*(?:=\s*)?)\Z")
_WINDOW = 64
"""Characters before an empty string that tell whether it may be a name."""
_EMPTY_SYMBOL = re.compile(r'(?P<empty>(?:@|\bsym_name\s*=\s*)"")|"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_HIGH = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_NAMED = re.compile(r"(?:@|sym_name\s*=|call_target_name\s*=|callee\s*=)\s*\Z")
_NAMES = re.compile(r"\s*[(=]")
_IN_LOCATION = re.compile(r"(?:\(|\[|,|\bat)\s*\Z")


def without_bytes(text: str, name: str = "-") -> str | None:
    """The text with the bytes of such strings spelt out, for a first look; `None` for a text that has none.

    Raises:
        ShardingError: a symbol without a name, or the name of an op, a symbol, an attribute or an axis that is no text,
            at its line.
    """
    if _may_have_empty_name(text):
        _check_no_empty_symbol(text, name)
    if "\\" not in text or _HIGH.search(text) is None:
        return None
    parts: list[str] = []
    at = 0
    for match in _STRING.finditer(text):
        inside = match[1]
        if inside is None or "\\" not in inside or _is_text(inside):
            continue
        _check_is_no_name(text, match, name)
        parts += [text[at : match.start(1)], _HIGH.sub(r"\\\g<0>", inside)]
        at = match.end(1)
    return "".join([*parts, text[at:]]) if parts else None


def _may_have_empty_name(text: str) -> bool:
    """Whether an empty string stands where a symbol has its name, which may be in a string or a comment."""
    return any(
        _BEFORE_NAME.search(part[max(0, at - _WINDOW) : at])
        for part in lines(text.encode())
        for at in pairs(part, b'""').tolist()
    )


def _check_no_empty_symbol(text: str, name: str) -> None:
    empty = next((match for match in _EMPTY_SYMBOL.finditer(text) if match["empty"]), None)
    if empty is not None:
        raise ShardingError(
            "a symbol has an empty name",
            location=f"{name}:{text.count(chr(10), 0, empty.start()) + 1}",
            cause="MLIR parses it, and prints what it cannot parse",
            remedy="give the function or mesh a name",
        )


def _is_text(inside: str) -> bool:
    """Whether the bytes that a string stands for are UTF-8."""
    data = bytearray()
    at = 0
    for match in _ESCAPE.finditer(inside):
        data += inside[at : match.start()].encode()
        data += bytes.fromhex(match[1]) if len(match[1]) == 2 else match[1].encode()
        at = match.end()
    data += inside[at:].encode()
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_is_no_name(text: str, match: re.Match[str], name: str) -> None:
    before = text[max(0, match.start() - 40) : match.start()]
    names = _NAMED.search(before) is not None
    if not names and _NAMES.match(text, match.end()) is not None:
        names = text[match.end() :].lstrip()[:1] == "=" or _IN_LOCATION.search(before) is None
    if names:
        raise ShardingError(
            f"the name {match[0]} is not UTF-8 text",
            location=f"{name}:{text.count(chr(10), 0, match.start()) + 1}",
            cause="names are shown in diagnostics and written to other notations, which are text",
            remedy="spell the name in UTF-8",
        )
