"""Modules in any notation: told apart, read into the `sdy` dialect, written in another one.

text ── spell generically ── MLIR parses ── import ──► module in sdy ── export ── print ── spell ──► text
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.ir.context import as_text, ir, load_module, valid_text
from shardwright.ir.devices import check_counts
from shardwright.memo import uncollected
from shardwright.notation.foreign import spelled_generically
from shardwright.notation.module_notations import module_notation, notation_of
from shardwright.notation.notation import ModuleNotation
from shardwright.notation.tuples import expand_tuples, may_have_tuples

__all__ = ["Opened", "as_generic", "convert_module", "may_have_leftovers", "open_module"]


def as_generic(content: str | bytes, name: str = "-", notation: ModuleNotation | None = None) -> str | bytes:
    """A module's text as jaxlib can parse it; bytecode as it is.

    Each op is still on its line, but for modules that torch-mlir spells: in these locations tell the lines.

    Raises:
        ShardingError: what the module's dialect forbids, or the syntax of a dialect that there is not, at its line in
            `name`.
    """
    if isinstance(content, bytes):
        return content
    return spelled_generically((notation or notation_of(content)).generic(content, name), name)


@dataclass(frozen=True, slots=True)
class Opened:
    """A module that has been read.

    Attributes:
        notation: What it was written in.
        generic: The text that jaxlib parsed, or the bytecode.
        module: The module in `sdy`, without tuples.
        is_generic: Whether the module is what `generic` says.
    """

    notation: ModuleNotation
    generic: str | bytes
    module: ir.Module
    is_generic: bool


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
    has_tuples = may_have_tuples(generic)
    if has_tuples:
        expand_tuples(module, name)
    check_counts(module, name)
    notation.read(module, name, generic)
    if may_have_leftovers(content, notation):
        from shardwright.notation.hlo.leftovers import refuse_leftovers  # few modules have any

        refuse_leftovers(module, notation.name, name)
    return Opened(notation, generic, module, notation.name == "sdy" and not has_tuples)


def may_have_leftovers(content: str | bytes, notation: ModuleNotation) -> bool:
    """Whether a module may have `mhlo.sharding`s that `notation` does not read."""
    word = b"mhlo.sharding" if isinstance(content, bytes) else "mhlo.sharding"
    return notation.name != "mhlo" and word in content  # type: ignore[operator]


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
    opened = open_module(content, name)
    target.write(opened.module)
    has_locations = isinstance(opened.generic, bytes) or "loc(" in as_text(content, name)
    return target.spell(valid_text(opened.module, name, has_locations))
