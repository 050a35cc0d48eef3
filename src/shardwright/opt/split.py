"""The modules of a file that a marker parts, each with the line on which it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["FilePart", "near_misses", "split"]

_BYTECODE = b"ML\xefR"
_BLANK = re.compile(rb"[ \t\r]*(?:\n|$)")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A part of a file: its bytes, and how many lines of the file come before it."""

    content: bytes
    lines_before: int = 0

    @property
    def is_bytecode(self) -> bool:
        """Whether it holds MLIR bytecode, of which nothing is text."""
        return self.content.startswith(_BYTECODE)

    @property
    def in_place(self) -> bytes:
        """Its bytes with an empty line for each that comes before, so that lines count as in the file."""
        return self.content if self.is_bytecode else b"\n" * self.lines_before + self.content


def split(content: bytes, marker: str | None) -> list[FilePart]:
    """The parts of `content` between lines that end in `marker`; bytecode, and what has no marker, in one piece."""
    whole = FilePart(content)
    if not marker or whole.is_bytecode:
        return [whole]
    chunks: list[FilePart] = []
    start = lines = 0
    for match in re.finditer(re.escape(marker.encode()), content):
        end = _BLANK.match(content, match.end())
        if end is None:
            continue
        chunks.append(FilePart(content[start : match.start()], lines))
        lines += content.count(b"\n", start, end.end())
        start = end.end()
    return [*chunks, FilePart(content[start:], lines)]


def near_misses(content: bytes, marker: str | None) -> list[int]:
    """The lines, counted from 1, that begin as the marker does and are none: `// ----` or `// ------`."""
    if not marker or len(marker) < 5 or content.startswith(_BYTECODE):
        return []
    stem, whole = marker.encode()[:-2], marker.encode()
    near = re.compile(rb"^[ \t]*" + re.escape(stem) + rb"[^\n]*$", re.MULTILINE)
    near_lines = [match for match in near.finditer(content) if not match[0].rstrip().endswith(whole)]
    return [content.count(b"\n", 0, match.start()) + 1 for match in near_lines if _is_rule(match[0].strip(), stem)]


def _is_rule(line: bytes, stem: bytes) -> bool:
    """Whether a line is a longer or shorter marker, rather than text that begins like one."""
    return not line[len(stem) :].strip(stem[-1:])
