r"""Values written as TOML, one entry a line, and text read as TOML, with the line of what is wrong in it.

What is written is the part of the language that needs no choice: strings, numbers and truth values, arrays, tables in
line, tables one below the other, and arrays of these. Python reads all of TOML, and writes none.

    >>> print(toml_text({"name": 'a "box"', "mesh": {"axes": [["x", 2]], "a key": {"is": True}}}), end="")
    name = "a \"box\""
    <BLANKLINE>
    [mesh]
    axes = [["x", 2]]
    "a key" = {is = true}

Source: TOML 1.0, https://toml.io/en/v1.0.0.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from shardwright.errors import ShardingError

__all__ = ["line_of_key", "lines_of_keys", "parse_toml", "quoted", "toml_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)")
_ENTRY = re.compile(r"""\s*(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[\w.-]+)\s*=""")
_HEADER = re.compile(r"""\s*\[+\s*(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[\w.-]+)\s*\]""")


def toml_text(content: Mapping[str, Any]) -> str:
    """A document: plain entries first, then each table under its header, a list of tables once for each of them.

    Arguments:
        content: Key → a string, a number, a truth value, a list of these or of lists, or a table of keys; a list of
            tables that is not empty becomes an array of tables.
    """
    plain = {key: value for key, value in content.items() if not _tables_of(value)}
    parts = ["".join(f"{_key(key)} = {_inline(value)}\n" for key, value in plain.items())] if plain else []
    for key, value in content.items():
        header = f"[[{_key(key)}]]" if isinstance(value, list) else f"[{_key(key)}]"
        parts += [
            "".join([f"{header}\n", *(f"{_key(name)} = {_inline(one)}\n" for name, one in table.items())])
            for table in _tables_of(value)
        ]
    return "\n".join(parts)


def _tables_of(value: Any) -> list[Mapping[str, Any]]:
    """The tables that a value is written as, below a header each; none where it stands behind its key."""
    if isinstance(value, Mapping):
        return [value]
    return list(value) if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value) else []


def _inline(value: Any) -> str:
    """A value behind its key."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return repr(value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else quoted(key)


def quoted(text: str) -> str:
    """A string of TOML; its escapes are those of JSON, and it wants one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse_toml(text: str, location: str, what: str, remedy: str) -> dict[str, Any]:
    """What a text says.

    Arguments:
        text: TOML.
        location: What diagnostics call it.
        what: What it is to be: `the data sheet of a hardware`.
        remedy: What to do where it is not TOML.

    Raises:
        ShardingError: it is not TOML; with line and column.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also of an integer of thousands of digits
        place, where = _PLACE.search(str(error)), ""
        if place is not None:
            where = f":{place[1]}:{place[2]}" if place[1] else f":{text.rstrip().count(chr(10)) + 1}"
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else _PLACE.sub("", str(error))
        raise ShardingError(f"{what} is not TOML", location=f"{location}{where}", cause=cause, remedy=remedy) from None


def line_of_key(text: str, table: str, key: str) -> int:
    """The line of a key, counted from 1, else of its table, else 0; `table` may be a key outside of all tables, or
    empty.
    """
    lines = lines_of_keys(text)
    return lines.get(tuple(filter(None, (table, key))), lines.get((table,), 0))


def lines_of_keys(text: str) -> dict[tuple[str, ...], int]:
    r"""The line of each key and table, counted from 1, where it is first written.

    >>> lines_of_keys('a = 1\n[b]\n"c.d" = 2')
    {('a',): 1, ('b',): 2, ('b', 'c.d'): 3}
    """
    lines: dict[tuple[str, ...], int] = {}
    inside: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if found := _HEADER.match(line):
            inside = _path(found["key"])
            lines.setdefault(inside, number)
        elif found := _ENTRY.match(line):
            path = (*inside, *_path(found["key"]))
            lines.setdefault(path, number)
            if not inside:
                lines.setdefault(path[:1], number)
    return lines


def _path(key: str) -> tuple[str, ...]:
    """A key as it is called, without its quotes; a bare one may have dots, and is that many."""
    if key.startswith('"'):
        try:
            return (str(json.loads(key)),)
        except ValueError:  # an escape that JSON has not
            return (key[1:-1],)
    return (key[1:-1],) if key.startswith("'") else tuple(key.split("."))
