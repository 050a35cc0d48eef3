"""What a file expects to be said of it: `// expected-error @+1 {{…}}`, checked as `mlir-opt -verify-diagnostics` does.

    expected-(error|warning|note|remark)[-re] [@+N|@-N|@above|@below|@unknown] {{text}}

A text matches within a message; with `-re`, what stands in `{{…}}` inside it is a regular expression. One expectation
takes every diagnostic that it matches; `@above` and `@below` mean the nearest line without an expectation.

Source: MLIR's "Diagnostics Infrastructure", SourceMgr Diagnostic Verifier Handler.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from shardwright.opt.diagnostics import Emitted, Severity, Text, caret

__all__ = ["Expectations"]

_EXPECTED = re.compile(
    r"expected-(?P<kind>error|note|remark|warning)(?P<re>-re)?"
    r" *(?:@(?P<where>[+-][0-9]{1,9}|above|below|unknown))? *\{\{(?P<text>.*)\}\}$"
)
_UNKNOWN = 0
"""The line of an expectation for diagnostics without a position."""


@dataclass(slots=True)
class _Expected:
    """An expectation: what is to be said of which line, and where that is written."""

    kind: Severity
    text: str
    pattern: re.Pattern[str]
    line: int
    written: tuple[int, int]
    seen: bool = False


@dataclass(slots=True)
class Expectations:
    """The expectations of one module, and the complaints about what was said of it.

    Attributes:
        text: The module's text.
        only_expected: Whether diagnostics that nobody expects may pass.
        complaints: What did not go as expected, rendered.
    """

    text: Text
    only_expected: bool = False
    complaints: list[str] = field(default_factory=list)
    _expected: list[_Expected] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Find the expectations."""
        waiting: list[_Expected] = []
        last_plain = next((number for number, line in enumerate(self.text.lines) if line), 0)
        for number, line in enumerate(self.text.lines[last_plain:], last_plain + 1):
            match = _EXPECTED.search(line.rstrip()) if "expected-" in line else None
            if match is None:
                last_plain = number
                for expected in waiting:
                    expected.line = number
                waiting = []
                continue
            read = self._read(match, number, last_plain)
            if read is not None and match["where"] == "below":
                waiting.append(read)

    def take(self, emitted: Emitted) -> None:
        """Check a diagnostic and its notes."""
        self._take_one(emitted)
        for note in emitted.notes:
            self.take(note)

    def finish(self) -> list[str]:
        """All complaints, those about expectations that nothing met among them."""
        missed = [
            self._complaint(expected, f'expected {expected.kind} "{expected.text}" was not produced')
            for expected in self._expected
            if not expected.seen
        ]
        return self.complaints + missed

    def _read(self, match: re.Match[str], number: int, last_plain: int) -> _Expected | None:
        where = match["where"] or ""
        lines = {"": number, "unknown": _UNKNOWN, "above": last_plain, "below": len(self.text.lines)}
        line = lines[where] if where in lines else number + int(where)
        kind: Severity = match["kind"]  # type: ignore[assignment]  # one of the four
        expected = _Expected(kind, match["text"], re.compile(""), line, (number, match.start() + 1))
        try:
            expected.pattern = _pattern(match["text"], bool(match["re"]))
        except re.error as error:
            self.complaints.append(self._complaint(expected, str(error)))
            return None
        self._expected.append(expected)
        return expected

    def _take_one(self, emitted: Emitted) -> None:
        line = emitted.line if emitted.line and emitted.file == self.text.name else _UNKNOWN if not emitted.line else -1
        near: _Expected | None = None
        for expected in self._expected:
            if expected.line != line or expected.pattern.search(emitted.message) is None:
                continue
            if expected.kind == emitted.severity:
                expected.seen = True
                return
            near = expected
        if emitted.optional or (self.only_expected and near is None):
            return
        if near is None:
            unexpected = Emitted(
                "error", f"unexpected {emitted.severity}: {emitted.message}", emitted.file, emitted.line, emitted.column
            )
            self.complaints.append(unexpected.render(self.text))
        else:
            message = f"'{emitted.severity}' diagnostic emitted when expecting a '{near.kind}'"
            self.complaints.append(self._complaint(near, message, width=1))

    def _complaint(self, expected: _Expected, message: str, width: int = 0) -> str:
        """A complaint that shows as much of the line as MLIR does: as the text is long, unless a width is given."""
        line, column = expected.written
        shown = caret(self.text.line(line), column, width or len(expected.text))
        return f"{self.text.name}:{line}:{column}: error: {message}\n{shown}"


def _pattern(text: str, is_regex: bool) -> re.Pattern[str]:
    """What a message must contain; a regular expression between double braces, where they mean one."""
    if not is_regex:
        return re.compile(re.escape(text))
    parts: list[str] = []
    while text:
        literal, opened, rest = text.partition("{{")
        parts.append(re.escape(literal))
        if not opened:
            break
        inner, closed, text = rest.partition("}}")
        if not closed:
            raise re.error("found start of regex with no end '}}'")
        parts.append(f"(?:{inner})")
    try:
        return re.compile("".join(parts))
    except re.error as error:
        raise re.error(f"invalid regex: {error}") from None
