"""The notations of whole modules, by name; each is loaded when a module may be written in it.

>>> notation_of("func.func @f(%x: tensor<4xf32> {mhlo.sharding = '{replicated}'}) -> () { return }").name
'mhlo'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from shardwright.errors import ShardingError
from shardwright.lazy import loaded

if TYPE_CHECKING:
    from shardwright.ir.context import ir

__all__ = ["ModuleNotation", "mentions", "module_notation", "module_notation_names", "notation_of"]


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
    "rfc": _Entry("shardwright.notation.rfc.modules:NOTATION", ("mesh",)),
    "shard": _Entry("shardwright.notation.shard.modules:NOTATION", ("shard.", "mesh.")),
    "mesh": _Entry("shardwright.notation.shard.modules:OLDER_NOTATION", ("shard.", "mesh.")),
    "sdy": _Entry("shardwright.notation.sdy.modules:NOTATION", ("sdy",)),
    "mhlo": _Entry("shardwright.notation.hlo.modules:NOTATION", ("mhlo.sharding",)),
}
"""By name, in the order in which texts are tried: first those with ops that MLIR alone cannot parse, which may have
attributes of sdy as well. All others are written from `sdy` and read into it."""

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
