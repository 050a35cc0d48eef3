"""What a notation of single shardings and one of whole modules is; `registry` and `module_notations` list them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from shardwright.ir.context import ir

__all__ = ["ModuleNotation", "Notation", "Shape", "mentions", "shape_of"]

Shape = tuple[int, ...]
"""Sizes of the tensor's dimensions, in elements."""

_PASSED = re.compile(r'"(?:[^"\\\n]|\\.)*"(?P<op>\s*\()?|//[^\n]*')
"""Strings and comments; a string that a parenthesis follows is the name of an op in generic form."""


def shape_of(sizes: Any) -> Shape:
    """The shape that a user gives: any sequence of whole numbers, numpy's too.

    Raises:
        ShardingError: anything else, or a negative size.
    """
    try:
        shape = () if isinstance(sizes, str) else tuple(index(size) for size in sizes)
    except TypeError:
        shape = (-1,)
    if isinstance(sizes, str) or min(shape, default=0) < 0:
        raise ShardingError(
            f"not a shape: {sizes!r}"[:200], cause="it is no sequence of sizes from 0", remedy="write it as (8, 16)"
        )
    return shape


@dataclass(frozen=True, slots=True)
class Notation:
    """One way to write a sharding down.

    Attributes:
        name: What `--to` calls it.
        title: What it is, in a few words.
        looks_like: Whether a text is of this notation, by a glance at how it begins.
        parse: Text → model, for a tensor of this shape (`None`: unknown) on this mesh (`None`: derive one if the text
            says enough). Raises `ShardingError` for malformed text, saying where, and for what the mesh cannot express.
        print: Model → canonical text, for a tensor of this shape. Raises `ShardingError` naming what it cannot express.
    """

    name: str
    title: str
    looks_like: Callable[[str], bool]
    parse: Callable[[str, Shape | None, Mesh | None], TensorSharding]
    print: Callable[[TensorSharding, Shape | None], str]


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
        has_manual: Whether it has computations that are written for one device.
    """

    name: str
    title: str
    looks_like: Callable[[str | bytes], bool]
    generic: Callable[[str, str], str]
    read: Callable[[ir.Module, str, str | bytes], None]
    write: Callable[[ir.Module], None]
    spell: Callable[[str], str]
    has_manual: bool = True


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
