"""Why MLIR's parser stops where it does, and what to change: that depends on what stands there."""

from __future__ import annotations

import re

from shardwright.notation.sdy.text import Unclosed, closing

__all__ = ["syntax_reason"]

_EXPECTED = re.compile(r"(?:custom op '[\w.]+' )?(?:failed to parse \w+, )?expect")
_BEGUN = re.compile(
    r"(?:#sdy\.sharding\w*|\b(?:in_|out_)?shardings?\s*=|sdy\.(?:sharding_constraint|reshard)\s+%\S+)\s*"
)
_PLACE = re.compile(r":(\d+):(\d+)$")
_SHOWN = 40
"""Characters of a line that a diagnostic shows."""

_SHARDING = ("it is not the syntax of what stands here", 'write shardings as <@mesh, [{"x"}, {?}], replicated={"y"}>')
_CUT_OFF = ("the text ends here, in the middle of an op", "give the whole module: it may have been cut off")
_GENERIC = 'correct it; every op may be written as "dialect.op"(%a) : (type) -> type'


def syntax_reason(message: str, text: str, location: str) -> tuple[str, str]:
    """Why the parser says so of a text at a location, and what to change; empty texts where it is not syntax."""
    if not _EXPECTED.match(message):
        return "", ""
    place = _PLACE.search(location)
    lines = text.split("\n")
    if place is None or int(place[1]) > len(lines):
        return _SHARDING[0], _GENERIC
    line, column = lines[int(place[1]) - 1], int(place[2]) - 1
    at = sum(len(before) + 1 for before in lines[: int(place[1]) - 1]) + min(column, len(line))
    if not text[at:].strip():
        return _CUT_OFF
    if _is_in_sharding(text, at):
        return _SHARDING
    shown = line[column:].strip()[:_SHOWN]
    return f"{_SHARDING[0]}: {shown!r}" if shown else _SHARDING[0], _GENERIC


def _is_in_sharding(text: str, at: int) -> bool:
    """Whether a sharding is begun before a position, on its line or the one before, and not ended there."""
    start = text.rfind("\n", 0, max(0, text.rfind("\n", 0, at)))
    for match in _BEGUN.finditer(text, max(0, start), at):
        if match.end() >= at:
            return True
        try:
            if text[match.end()] in "<[" and closing(text, match.end()) > at:
                return True
        except Unclosed:
            return True
    return False
