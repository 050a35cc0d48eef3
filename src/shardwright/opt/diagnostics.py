"""Diagnostics as MLIR prints them: `FILE:LINE:COL: error: …`, the source line, a caret, and then the notes.

Source: MLIR's "Diagnostics Infrastructure", Source Manager Diagnostic Handler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.locations import read_location

__all__ = [
    "Emitted",
    "Severity",
    "Text",
    "caret",
    "mlir_diagnostics",
    "emitted_for_error",
    "emitted_by_mlir",
    "emitted_warning",
    "without_ops",
]

Severity = Literal["error", "warning", "note", "remark"]

_POSITION = re.compile(r"(?P<file>.*?):(?P<line>\d+)(?::(?P<column>\d+))?", re.DOTALL)
_SEE_OP = "see current operation:"
"""How the note begins by which MLIR shows the op that a diagnostic is about."""


class Text:
    """A source as it was given and as it was parsed, for showing its lines.

    Attributes:
        name: What diagnostics call it; MLIR's parser calls it `-`.
    """

    def __init__(self, name: str, given: str = "", parsed: str = "") -> None:
        """Hold a text; `parsed` is what MLIR saw of it, line for line."""
        self.name = name
        self._given = given
        self._parsed = parsed or given

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self._given.split("\n")

    @cached_property
    def parsed_lines(self) -> list[str]:
        """Its lines as they were parsed."""
        return self._parsed.split("\n")

    def line(self, number: int) -> str | None:
        """The line of that number, counted from 1."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None

    def column(self, line: int, column: int) -> int:
        """A column of the parsed line in the line as it was given: where it starts, if they differ or it is unknown."""
        given = self.line(line)
        if given is None or (column and self.parsed_lines[line - 1 : line] == [given]):
            return column
        return len(given) - len(given.lstrip()) + 1


@dataclass(frozen=True, slots=True)
class Emitted:
    """One diagnostic.

    Attributes:
        severity: Its kind.
        message: What it says.
        file: The file that it is about; empty where that is unknown.
        line: Counted from 1; 0 where unknown.
        column: Counted from 1; 0 where unknown.
        notes: What is said besides.
        optional: Whether it explains another, as a remedy does, and need not be expected.
    """

    severity: Severity
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    notes: tuple[Emitted, ...] = field(default=())
    optional: bool = False

    def render(self, text: Text, shown: Emitted | None = None) -> str:
        """As MLIR prints it; the source line is left out where `shown`, the one before it, had the same."""
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        parts = [f"{position or '<unknown>:0'}: {self.severity}: {self.message}\n"]
        here = (self.file, self.line, self.column)
        if shown is None or here != (shown.file, shown.line, shown.column):
            parts.append(caret(text.line(self.line) if self.file == text.name else None, self.column))
        before = self
        for note in self.notes:
            parts.append(note.render(text, before))
            before = note
        return "".join(parts)


def caret(line: str | None, column: int, width: int = 1) -> str:
    """A source line, and below it a caret at `column`; nothing for a line that is not there."""
    if line is None or not column:
        return ""
    line = line.removesuffix("\r")
    blank = "".join("\t" if char == "\t" else " " for char in line[: column - 1].ljust(column - 1))
    return f"{line}\n{blank}^{'~' * (width - 1)}\n"


def emitted_by_mlir(diagnostic: Any, text: Text) -> Emitted:
    """One of MLIR's own diagnostics; MLIR's handle is not kept."""
    where = str(diagnostic.location)
    place = read_location(where)
    message = str(diagnostic.message)
    notes = tuple(emitted_by_mlir(note, text) for note in diagnostic.notes)
    severity: Severity = diagnostic.severity.name.lower()
    optional = message.startswith(_SEE_OP)
    if not place.file:
        named = "" if where == "loc(unknown)" else f"{where}: "
        return Emitted(severity, named + message, notes=notes, optional=optional)
    line, column = place.line, place.column
    file = text.name if place.file == "-" else place.file
    if file == text.name:
        column = text.column(line, column)
    return Emitted(severity, message, file, line, column, notes, optional)


def without_ops(emitted: Emitted) -> Emitted:
    """A diagnostic without the notes that show ops."""
    return replace(emitted, notes=tuple(note for note in emitted.notes if not note.message.startswith(_SEE_OP)))


def mlir_diagnostics(error: BaseException | None, text: Text) -> list[Emitted]:
    """What MLIR said of the failure; nothing if it is none of MLIR's."""
    if not isinstance(error, ir.MLIRError):
        return []
    return [emitted_by_mlir(diagnostic, text) for diagnostic in error.error_diagnostics]


def emitted_for_error(error: ShardingError, text: Text) -> Emitted:
    """One of our diagnostics; cause and remedy become notes."""
    told = error.diagnostic
    place = _place(told.location, text)
    is_named = "." in told.op and told.op not in told.message
    message = f"'{told.op}' op {told.message}" if is_named else told.message
    notes = tuple(Emitted("note", note, *place, optional=True) for note in (told.cause, told.remedy) if note)
    return Emitted("error", message, *place, notes)


def emitted_warning(message: str, location: str, text: Text) -> Emitted:
    """A warning of our passes, of an op at a location."""
    return Emitted("warning", message, *_place(location, text))


def _place(location: str, text: Text) -> tuple[str, int, int]:
    """File, line and column of one of our locations, 0 where unknown."""
    position = _POSITION.fullmatch(location)
    file, line, column = text.name, 0, 0
    if position is not None:
        file, line, column = position["file"], int(position["line"]), int(position["column"] or 0)
        file = text.name if file in ("-", "") else file
    elif location not in ("", "-", "unknown location"):
        file = location
    if file == text.name and line:
        column = text.column(line, column)
    return file, line, column
