"""The notations of whole modules, by name; each is loaded when a module may be written in it.

>>> notation_of("func.func @f(%x: tensor<4xf32> {mhlo.sharding = '{replicated}'}) -> () { return }").name
'mhlo'
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from shardwright.errors import ShardingError
from shardwright.lazy import loaded
from shardwright.notation.notation import ModuleNotation

__all__ = ["module_notation", "module_notation_names", "notation_of"]


class _NotationEntry(NamedTuple):
    """Where a notation of modules is defined, and words: a text that has none of them is of another notation."""

    home: str
    words: tuple[str, ...]

    def is_of(self, content: str | bytes, has_word: Callable[[str], bool]) -> bool:
        """Whether a module is written in this notation; `has_word` tells whether a word stands in it."""
        return any(map(has_word, self.words)) and self.load().looks_like(content)

    def load(self) -> ModuleNotation:
        """The notation."""
        notation: ModuleNotation = loaded(self.home)
        return notation


_ENTRIES = {
    "rfc": _NotationEntry("shardwright.notation.rfc.modules:NOTATION", ("mesh.", "mesh_cluster")),
    "shard": _NotationEntry("shardwright.notation.shard.modules:NOTATION", ("shard.", "mesh.")),
    "mesh": _NotationEntry("shardwright.notation.shard.modules:OLDER_NOTATION", ("shard.", "mesh.")),
    "sdy": _NotationEntry("shardwright.notation.sdy.modules:NOTATION", ("sdy",)),
    "mhlo": _NotationEntry("shardwright.notation.hlo.modules:NOTATION", ("mhlo.sharding",)),
}
"""By name, in the order in which texts are tried: first those with ops that MLIR alone cannot parse, which may have
attributes of sdy as well. All others are written from `sdy` and read into it."""


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

    @cache
    def has_word(word: str) -> bool:
        return isinstance(content, bytes) or word in content

    entries = _ENTRIES.values()
    return next((entry for entry in entries if entry.is_of(content, has_word)), _ENTRIES["sdy"]).load()
