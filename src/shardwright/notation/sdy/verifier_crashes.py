"""What ends the process that verifies it, refused on the level of the text, before jaxlib's verifier sees it.

- A part of an axis, `"x":(pre)size`, or a mesh, of so many devices that their number overflows: the verifier divides by
  what is left of it, 0.
- A manual computation, all_slice or reduce_scatter on a mesh of one device: a sharding on such a mesh has no dimensions
  whatever the tensor has, and the verifier goes through those of both side by side.

Bytecode is not looked at: whoever wrote it had a verified module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from shardwright.axes import AxisRef
from shardwright.errors import ShardingError
from shardwright.mesh import MOST_DEVICES as _LARGEST
from shardwright.notation.names import STRING, SYMBOL, symbol_text, unquoted
from shardwright.notation.sdy.text import Unclosed, closing, statement
from shardwright.scanner import line_of

__all__ = ["refuse_verifier_crashes"]

_STRING_OR_COMMENT = re.compile(rf"{STRING}|//[^\n]*")
_PART = re.compile(r"\(\s*(\d+)\s*\)\s*(\d+)")
_BEFORE_PART = re.compile(r'"\s*:\s*\Z')
"""Looked at only where a part may follow: there are ten times as many strings as brackets."""

_AXES = re.compile(
    rf"mesh(?:\s+{SYMBOL}\s*=\s*(?:#sdy\.mesh)?)?\s*<\s*\[\s*({STRING}\s*=\s*\d+(?:\s*,\s*{STRING}\s*=\s*\d+)*)\s*\]"
)
_SIZE = re.compile(rf"{STRING}\s*=\s*(\d+)")

_ONE = r"<\s*\[\s*\]\s*,\s*device_ids\s*=\s*\[[^\]]*\]\s*>"
_ONE_DEVICE = re.compile(_ONE)
_MESH = re.compile(rf"sdy\.mesh\s+({SYMBOL})\s*=\s*(?:#sdy\.mesh)?\s*{_ONE}")
_GENERIC_MESH = re.compile(
    rf'"sdy\.mesh"\s*\(\s*\)\s*<\{{\s*mesh\s*=\s*#sdy\.mesh\s*{_ONE}\s*,\s*sym_name\s*=\s*({STRING})'
)
_ALIAS = re.compile(r"^(#[A-Za-z_][\w$.]*)[ \t]*=[ \t]*#sdy\.sharding(?:_per_value)?(?=<)", re.MULTILINE)
_OP = re.compile(r'(?P<quote>"?)sdy\.(?P<short>manual_computation|all_slice|reduce_scatter)\b')


def refuse_verifier_crashes(text: str, name: str = "-") -> None:
    """Look through the text of a module, which diagnostics call `name`.

    Raises:
        ShardingError: what the verifier would not survive, at its line.
    """
    _check_parts(text, name)
    _check_meshes(text, name)
    if "device_ids" in text and _ONE_DEVICE.search(text) is not None:
        _check_one_device(text, name)


def _check_parts(text: str, name: str) -> None:
    for match in _PART.finditer(text):
        pre, size = int(match[1]), int(match[2])
        before = (
            _BEFORE_PART.search(text, max(0, match.start() - 4096), match.start()) if pre * size > _LARGEST else None
        )
        axis = _string_before(text, before.start() + 1) if before is not None else ""
        if axis:
            raise ShardingError(
                f"the part {axis}{AxisRef(axis, pre, size).part} does not fit its axis",
                location=f"{name}:{line_of(text, match.start())}",
                cause=f"pre-size times size is {pre * size}, more than any axis has",
                remedy="pre-size times size must divide the size of the axis",
            )


def _check_meshes(text: str, name: str) -> None:
    for match in _AXES.finditer(text):
        devices = math.prod(map(int, _SIZE.findall(match[1])))
        if devices > _LARGEST and _is_code(text, match.start()):
            raise ShardingError(
                f"a mesh has {devices} devices",
                op="sdy.mesh",
                location=f"{name}:{line_of(text, match.start())}",
                cause=f"more than {_LARGEST} cannot be numbered",
                remedy="give its axes the sizes that they have",
            )


def _check_one_device(text: str, name: str) -> None:
    symbols = [re.escape(match[1]) for match in _MESH.finditer(text)]
    symbols += [re.escape(symbol_text(unquoted(match[1]))) for match in _GENERIC_MESH.finditer(text)]
    meshes = "|".join([*symbols, rf"mesh\s*{_ONE}"])
    sharding = rf"<\s*(?:{meshes})\s*,\s*\["
    try:
        aliases = [re.escape(alias) for alias, definition in _aliases(text) if re.search(sharding, definition)]
        meant = re.compile("|".join([sharding, *(rf"{alias}(?![\w$.])" for alias in aliases)]))
        for match in _OP.finditer(text):
            if _is_code(text, match.start()) and meant.search(_header(text, match)):
                raise _one_device(f"sdy.{match['short']}", f"{name}:{line_of(text, match.start())}")
    except Unclosed:
        return  # MLIR's parser will say where


def _aliases(text: str) -> Iterator[tuple[str, str]]:
    for match in _ALIAS.finditer(text):
        yield match[1], text[match.end() : closing(text, match.end())]


def _header(text: str, op: re.Match[str]) -> str:
    """What an op says of shardings: its properties, or in custom syntax what stands before its region or its type."""
    if op["quote"]:
        start = text.find("<{", op.end())
        return text[start : closing(text, start)] if start >= 0 else ""
    if op["short"] == "manual_computation":
        return text[op.end() : text.find("manual_axes", op.end())]
    sharded = statement(text, op.end())
    return sharded.sharding if sharded is not None else ""


def _one_device(op: str, location: str) -> ShardingError:
    return ShardingError(
        f"{op} is given a mesh of one device",
        op=op,
        location=location,
        cause="the one device has the whole tensor: no dimension of it is split, and none can be",
        remedy="take the op out, or give it a mesh with axes",
    )


def _string_before(text: str, end: int) -> str:
    """The string, quotes included, that ends at a position; empty where a comment or another string goes on there."""
    return next((passed[0] for passed in _passed(text, end - 1) if passed.end() == end and passed[0][0] == '"'), "")


def _is_code(text: str, position: int) -> bool:
    return not any(passed.start() < position < passed.end() for passed in _passed(text, position))


def _passed(text: str, position: int) -> Iterator[re.Match[str]]:
    """The strings and comments on the line of a position: both end there."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return _STRING_OR_COMMENT.finditer(text, start, len(text) if end < 0 else end)
