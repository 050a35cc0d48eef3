"""How deep a module's text goes, measured before MLIR's parser, which is recursive, follows it.

Depth comes of brackets, of prefixes and chains in affine expressions (`- - - d0`, `d0 mod 2 mod 3 …`), and of aliases
that name aliases. Aliases are cheap to parse and dear to print: `#b = [#a, #a]`, `#c = [#b, #b]`, … doubles each time,
so what they stand for is measured too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

import numpy as np

from shardwright.errors import ShardingError
from shardwright.ir.pairs import lines, pairs
from shardwright.scanner import line_of

__all__ = ["DEEPEST_CALLS", "DEEPEST_REGIONS", "refuse_deep", "too_deep"]

DEEPEST_REGIONS = 64
"""Regions within one another that our own recursive functions are made for."""

DEEPEST_CALLS = 100
"""Functions that call one another on the way to an op; each takes three of Python's 1,000 frames while it is read."""

_DEEPEST = 800
"""Levels that we let MLIR's parser see; it dies of about 3,000 nested regions."""

_LONGEST_ALIAS = 1 << 20
"""Characters that an alias may stand for, all that it names written out."""

_LONGEST_ALIASES = 1 << 28
"""Characters that all uses of long aliases may stand for together."""

_LONG = 1 << 12
"""Characters from which on the uses of an alias are counted."""

_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_PAIRS = (b"<>", b"()", b"[]", b"{}")
_ROUNDS = 8
_STRUCK = ord("~")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"()[]{}<>"))
_NOT_QUOTED_BRACKETS = bytes(set(_NOT_BRACKETS) - set(b'"'))
_AFFINE = re.compile(r"affine_(?:map|set)\s*<((?:[^<>]|(?<=-)>|>(?==))*)")
_OPERATOR = re.compile(r"[-+*]|floordiv|ceildiv|\bmod\b")
_QUOTED_TEXT = re.compile(_QUOTED.pattern.decode())
_DEFINITIONS = tuple(re.compile(rf"({sign}[\w$-]++)\s*+=(?!=)", re.ASCII) for sign in "#!")
"""Of attributes, and of types; one pattern for both takes five times as long."""
_ALIAS_USE = re.compile(r"[#!][\w$-]+")


def refuse_deep(text: str, name: str = "-") -> int:
    """Refuse what MLIR's parser or printer would not survive; diagnostics call the text `name`.

    Returns:
        How deep its brackets go.

    Raises:
        ShardingError: nesting too deep, or aliases that stand for too much, at its line.
    """
    affine = "affine_" in text
    depth = _bracket_depth(text, affine, name)
    if affine:
        _check_affine(text, name)
    if "#" in text or "!" in text:
        _check_aliases(text, name)
    return depth


def too_deep(op: str, what: str, most: int, location: str) -> ShardingError:
    """The refusal of an `op` at a location that lies in too many others."""
    return ShardingError(
        f"{what} are nested more than {most} deep",
        op=op,
        location=location,
        cause="what works on a program works on each level within the one around it",
        remedy="flatten what is nested",
    )


def _too_deep(what: str, location: str) -> ShardingError:
    return ShardingError(
        f"{what} are nested more than {_DEEPEST} deep",
        location=location,
        cause="MLIR's parser is recursive and would exhaust the stack",
        remedy="flatten what is nested",
    )


# Brackets


def _bracket_depth(text: str, affine: bool, name: str) -> int:
    """How deep the brackets of a text go, or a little more; `affine` if there may be affine expressions in it.

    Brackets alone are kept and matching pairs struck out, some rounds: most texts are done then, at the speed of C.

    Raises:
        ShardingError: deeper than MLIR's parser survives, at the line.
    """
    data = text.encode()
    brackets = _brackets(data, affine)
    struck = 0
    while brackets and struck < _ROUNDS * len(_PAIRS):
        for pair in _PAIRS:
            brackets = brackets.replace(pair, b"")
        struck += len(_PAIRS)  # as many levels may have gone at once: `<{[()]}>`
    depth = deepest = 0
    for bracket in brackets:
        depth += 1 if bracket in b"([{<" else -1
        deepest = max(deepest, depth)
        if deepest + struck > _DEEPEST:
            raise _too_deep("regions or brackets", f"{name}:{_deep_line(data, affine)}")
    return deepest + struck


def _brackets(text: bytes, affine: bool) -> bytes:
    """The brackets of a text outside of its strings and comments, none of which goes on on another line."""
    return b"".join([_brackets_of(part, affine) for part in lines(text)])


def _brackets_of(part: bytes, affine: bool) -> bytes:
    if b"\\" in part or pairs(part, b"//").size:
        return _without_signs(_QUOTED.sub(b"", part), affine).translate(None, _NOT_BRACKETS)
    kept = _without_signs(part, affine).translate(None, _NOT_QUOTED_BRACKETS)
    return b"".join(kept.split(b'"')[::2])  # five times as fast, where a quote can only begin or end a string


def _without_signs(text: bytes, affine: bool) -> bytes:
    """Text of the same length whose signs that have a bracket in them and are none are struck out."""
    struck = bytearray(text)
    characters = np.frombuffer(struck, np.uint8)
    characters[pairs(text, b"->") + 1] = _STRUCK
    if affine:
        characters[pairs(text, b">=")] = _STRUCK
    return bytes(struck)


def _deep_line(data: bytes, affine: bool) -> int:
    """The line on which the nesting first exceeds what we accept."""
    depth = 0
    text = _without_signs(_QUOTED.sub(lambda match: b"\n" * match.group().count(b"\n"), data), affine)
    for number, line in enumerate(text.split(b"\n"), 1):
        for bracket in line.translate(None, _NOT_BRACKETS):
            depth += 1 if bracket in b"([{<" else -1
            if depth > _DEEPEST - _ROUNDS * len(_PAIRS):
                return number
    return 1


# Affine expressions


def _check_affine(text: str, name: str) -> None:
    """Operators of one expression: each may be a level, of a prefix or of a chain, and is one when it is printed."""
    for match in _AFFINE.finditer(text):
        for expression in match[1].replace("->", "").replace(">=", "").split(","):
            if len(_OPERATOR.findall(expression)) > _DEEPEST:
                raise _too_deep("the operators of an affine expression", f"{name}:{line_of(text, match.start())}")


# Aliases


def _check_aliases(text: str, name: str) -> None:
    depths: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for start, alias, value in _aliases(text):
        depth, size = 1, len(value)
        for use in _ALIAS_USE.findall(value):
            if use in sizes:
                depth = max(depth, depths[use] + 1)
                size += sizes[use]
        depths[alias], sizes[alias] = depth, size
        if depth > _DEEPEST:
            raise _too_deep("aliases", f"{name}:{line_of(text, start)}")
        if size > _LONGEST_ALIAS and size > 2 * len(value):
            raise _too_long(alias, size, f"{name}:{line_of(text, start)}")
    long = {alias: size for alias, size in sizes.items() if size > _LONG}
    if long and sum([long.get(use, 0) for use in _ALIAS_USE.findall(text)]) > max(_LONGEST_ALIASES, 16 * len(text)):
        alias = max(long, key=lambda one: long[one])
        raise _too_long(alias, long[alias], f"{name}:{line_of(text, text.find(alias))}")


def _aliases(text: str) -> Iterator[tuple[int, str, str]]:
    """Where an alias is defined, its name, and what it stands for: a line, or up to another, or as its brackets go."""
    matches = chain.from_iterable(pattern.finditer(text) for pattern in _DEFINITIONS)
    definitions = sorted([(match.start(), match.end(), match[1]) for match in matches])
    definitions.append((len(text), 0, ""))
    for (start, end, alias), (following, _, _) in pairwise(definitions):
        stop = text.find("\n", end)
        if stop + 1 != following or not alias:
            stop = _end(text, end, following)
        yield start, alias, text[end:stop]


def _end(text: str, start: int, following: int) -> int:
    """Where what an alias stands for ends, unless the next line defines another; `following` is where one does."""
    stop = start
    while stop < len(text) and stop - start < _LONGEST_ALIAS:
        line = text.find("\n", stop + 1)
        line = len(text) if line < 0 else line
        stop = following if stop < following < line else line
        value = text[start:stop]
        if value.strip() and not _is_open(_QUOTED_TEXT.sub("", value) if '"' in value or "//" in value else value):
            return stop
    return stop


def _is_open(value: str) -> bool:
    """Whether a bracket is left open."""
    count = value.count
    return (
        count("[") > count("]")
        or count("(") > count(")")
        or count("{") > count("}")
        or count("<") + count("->") + count(">=") > count(">")
    )


def _too_long(alias: str, size: int, location: str) -> ShardingError:
    return ShardingError(
        f"the alias {alias} stands for {size} characters",
        location=location,
        cause="written out, with all that it names, it would fill the memory",
        remedy="let aliases name fewer others",
    )
