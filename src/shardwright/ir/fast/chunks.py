"""The text of MLIR in chunks of one op each, as its printer lays it out; nothing here knows an op.

A chunk is the line that an op begins on, and those that follow until its brackets are closed and another op begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = [
    "END",
    "NAME",
    "START",
    "Unsure",
    "cut_at_names",
    "depth_of",
    "op_column",
    "op_end",
    "without_comments",
    "without_location",
    "without_strings",
]

NAME = re.compile(r"(%(?:\d+|[A-Za-z$._-][\w$.-]*)(?:#\d+)?)", re.ASCII)
"""The name of a value, `%5#1`, as MLIR's lexer cuts it."""

START = re.compile(
    r'\s*((?:%[\w$.-]+(?::\d+)?(?:,\s*%[\w$.-]+(?::\d+)?)*\s*=\s*)?)("[\w.$]+"|[A-Za-z_]\w*\.[\w.$]+|return|call)(?![\w.$])',
    re.ASCII,
)
"""The names of an op's results, and its own, at the beginning of a line."""

END = re.compile(r"\s*\}\s*(?:loc\(.*\)\s*)?$")
"""A line that ends the body of a function."""

_ALIASED = re.compile(r"#\w+\)", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Unsure(Exception):
    """The text is not written as we know it: it must be read as a whole."""


def op_column(line: str) -> int:
    """Where the name of the op that begins on a line stands, from 1, in bytes; 0 where none does."""
    start = START.match(line)
    return 0 if start is None else len(line[: start.start(2)].encode()) + 1


def op_end(lines: Sequence[str], at: int) -> int:
    """The line after the op that begins at a line: its brackets are closed there, and another op or the end follows.

    The end is a closing bracket on a line of its own, or any line that goes in less deep.

    Raises:
        Unsure: there is no such line.
    """
    depth, end, indent = 0, len(lines), _indent(lines[at])
    while at < end:
        line = lines[at]
        depth += depth_of(without_strings(line))
        at += 1
        if depth < 0:
            break
        if depth == 0 and (at == end or _begins(lines[at]) or _indent(lines[at]) < indent):
            return at
    raise Unsure("brackets that do not match")


def cut_at_names(text: str) -> list[str]:
    """A text cut at the names of values: every odd piece is one.

    Raises:
        Unsure: a string or a comment holds what looks like one.
    """
    outside = without_strings(text)
    if outside.count("%") != text.count("%"):
        raise Unsure("a string that holds '%'")
    without_comments(outside)
    return NAME.split(text)


def without_location(text: str) -> tuple[str, str]:
    """A chunk without its location, and what that says (`""` where it has none)."""
    at = text.rfind(" loc(")
    if at < 0:
        return text, ""
    location = text[at + 5 :].rstrip()
    if not _ALIASED.fullmatch(location):
        outside = without_strings(location)
        if not outside.endswith(")") or depth_of(outside[:-1]) != 0 or _closes_early(outside[:-1]):
            return text, ""
    return text[:at], location[:-1]


def _closes_early(text: str) -> bool:
    depth = 0
    for mark in re.findall(r"[()]", text):
        depth += 1 if mark == "(" else -1
        if depth < 0:
            return True
    return False


def without_comments(text: str) -> str:
    """A text without strings as it is.

    Raises:
        Unsure: it has a comment.
    """
    if "//" in text:
        raise Unsure("a comment")
    return text


def without_strings(text: str) -> str:
    """A text with nothing in its strings."""
    return _STRING.sub('""', text) if '"' in text else text


def depth_of(text: str) -> int:
    """How many more brackets are opened than closed, strings not left out."""
    count = text.count
    return count("{") + count("(") + count("[") - count("}") - count(")") - count("]")


def _begins(line: str) -> bool:
    """Whether no line of an op goes on here: another begins, or the body ends."""
    stripped = line.strip()
    return not stripped or stripped[0] == "%" or bool(START.match(line) or END.match(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
