"""Modules in any notation: told apart, read into the `sdy` dialect, written in another one.

    text ── spell generically ── MLIR parses ── import ──► module in sdy ── export ── print ── spell ──► text

A notation is loaded when a module may be written in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from shardwright.errors import ShardingError
from shardwright.ir.context import as_text, ir, load_module, module_text
from shardwright.lazy import loaded
from shardwright.memo import uncollected

__all__ = [
    "ModuleNotation",
    "Opened",
    "as_generic",
    "convert_module",
    "mentions",
    "module_notation",
    "module_notation_names",
    "notation_of",
    "open_module",
]


@dataclass(frozen=True, slots=True)
class ModuleNotation:
    """One way to write a module's shardings down.

    Attributes:
        name: What `--to` calls it.
        title: What it is, in a few words.
        looks_like: Whether a text (as bytes: bytecode) is of this notation, by a scan.
        generic: Its text, and the name of the file, → text that jaxlib parses, each op still on its line. Raises
            `ShardingError` for what the dialect forbids.
        read: A module as jaxlib parsed it, the name of the file, and what jaxlib parsed → the same module in `sdy`, in
            place. Raises `ShardingError` for what the dialect forbids and sdy and its carriers cannot hold.
        write: A module in `sdy` → the same module in this notation, in place.
        spell: What jaxlib prints → the notation's own syntax.
    """

    name: str
    title: str
    looks_like: Callable[[str | bytes], bool]
    generic: Callable[[str, str], str]
    read: Callable[[ir.Module, str, str | bytes], None]
    write: Callable[[ir.Module], None]
    spell: Callable[[str], str]


class _Entry(NamedTuple):
    """Where a notation of modules is defined, and words: a text that has none of them is of another notation."""

    home: str
    words: tuple[str, ...]

    def is_of(self, content: str | bytes) -> bool:
        """Whether a module is written in this notation."""
        if isinstance(content, str) and not any(word in content for word in self.words):
            return False
        return self.load().looks_like(content)

    def load(self) -> ModuleNotation:
        """The notation."""
        found: ModuleNotation = loaded(self.home)
        return found


_ENTRIES = {
    "sdy": _Entry("shardwright.notation.sdy.modules:NOTATION", ("sdy",)),
    "rfc": _Entry("shardwright.notation.rfc.modules:NOTATION", ("mesh",)),
    "shard": _Entry("shardwright.notation.shard.modules:NOTATION", ("shard.", "mesh.")),
    "mesh": _Entry("shardwright.notation.shard.modules:OLDER_NOTATION", ("shard.", "mesh.")),
    "mhlo": _Entry("shardwright.notation.hlo.modules:NOTATION", ("mhlo.sharding",)),
}
"""By name, in the order in which texts are tried; the first one is what all others are written from and read into."""

_PASSED = re.compile(r'"(?:[^"\\\n]|\\.)*"(?P<op>\s*\()?|//[^\n]*')
"""Strings and comments; a string that a parenthesis follows is the name of an op in generic form."""


def _kept(match: re.Match[str]) -> str:
    return match[0] if match["op"] else ""


def mentions(pattern: re.Pattern[str], text: str) -> bool:
    """Whether `pattern`, which stays within a line, occurs in a module's text outside comments and strings.

    One that begins with letters is looked for some forty times as fast as one that begins with a word boundary.
    """
    at = pattern.search(text)
    while at is not None:
        start = text.rfind("\n", 0, at.start()) + 1
        end = text.find("\n", at.end())
        end = len(text) if end < 0 else end
        if pattern.search(_PASSED.sub(_kept, text[start:end])) is not None:
            return True
        at = pattern.search(text, end)
    return False


def module_notation_names() -> tuple[str, ...]:
    """What the notations of modules are called, in the order in which texts are tried."""
    return tuple(_ENTRIES)


def module_notation(name: str) -> ModuleNotation:
    """The notation of modules called `name`.

    Raises:
        ShardingError: there is none.
    """
    if name not in _ENTRIES:
        raise ShardingError(f"unknown notation of modules {name!r}", remedy=f"one of {', '.join(_ENTRIES)}")
    return _ENTRIES[name].load()


def notation_of(content: str | bytes) -> ModuleNotation:
    """The notation that a module is written in; `sdy` for one without shardings."""
    entries = _ENTRIES.values()
    return next((entry for entry in entries if entry.is_of(content)), _ENTRIES["sdy"]).load()


def as_generic(content: str | bytes, name: str = "-", notation: ModuleNotation | None = None) -> str | bytes:
    """A module's text as jaxlib can parse it, each op still on its line; bytecode as it is.

    Raises:
        ShardingError: what the module's dialect forbids, at its line in `name`.
    """
    return (notation or notation_of(content)).generic(content, name) if isinstance(content, str) else content


@dataclass(frozen=True, slots=True)
class Opened:
    """A module that has been read.

    Attributes:
        notation: What it was written in.
        generic: The text that jaxlib parsed, or the bytecode.
        module: The module in `sdy`.
    """

    notation: ModuleNotation
    generic: str | bytes
    module: ir.Module


@uncollected
def open_module(content: str | bytes, name: str = "-") -> Opened:
    """Read a module in any notation; diagnostics call it `name`.

    Raises:
        ShardingError: malformed text, what its dialect forbids, or what sdy and its carriers cannot hold, at its line.
    """
    content = as_text(content, name)
    notation = notation_of(content)
    generic = as_generic(content, name, notation)
    module = load_module(generic, name)
    notation.read(module, name, generic)
    return Opened(notation, generic, module)


@uncollected
def convert_module(content: str | bytes, to: str, name: str = "-") -> str:
    """A module in any notation, as text in the notation called `to`.

    Functions, calls, regions and attributes stay as they are, and so do locations where the text has any; comments and
    the names of values go, as MLIR forgets them. What is already in that notation is checked and printed in its
    canonical form.

    Raises:
        ShardingError: no such notation, a malformed module, or what `to` cannot express, at its op and line.
    """
    target = module_notation(to)
    found = open_module(content, name)
    target.write(found.module)
    has_locations = isinstance(found.generic, bytes) or "loc(" in found.generic
    return target.spell(module_text(found.module, locations=has_locations))
