"""What these tests need of LLVM's FileCheck, as a command: `filecheck.py FILE [--check-prefix=PREFIX] < OUTPUT`.

    CHECK: text {{regex}} [[NAME:regex]] [[NAME]] [[@LINE+1]]

`-NEXT`, `-SAME`, `-NOT`, `-DAG` and `-LABEL` as there; runs of blanks are one blank.

Source: LLVM's "FileCheck - Flexible pattern matching file verifier".
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Directive", "Mismatch", "check", "directives"]

_BLANKS = re.compile(r"[ \t]+")
_PIECE = re.compile(
    r"\{\{(?P<regex>.*?)\}\}(?!\})|\[\[(?P<name>[A-Za-z_]\w*)(?::(?P<defined>.*?))?\]\](?!\])|\[\[@LINE(?P<offset>[+-]\d+)?\]\]"
)


class Mismatch(Exception):
    """What a directive does not find, or finds where it must not be."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One line of checks: its kind (empty for the plain one), its pattern, and its line in the file."""

    kind: str
    pattern: str
    line: int


def directives(text: str, prefix: str = "CHECK") -> list[Directive]:
    """The checks of a file that have the prefix.

    Raises:
        Mismatch: there are none, or one of a kind that is not known.
    """
    written = re.compile(rf"(?<![\w-]){re.escape(prefix)}(?:-(?P<kind>[A-Z]+))?:(?P<pattern>.*)")
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        match = written.search(line)
        if match is None or "RUN:" in line[: match.start()]:
            continue
        if match["kind"] not in (None, "NEXT", "SAME", "NOT", "DAG", "LABEL"):
            raise Mismatch(f"line {number}: unknown check {prefix}-{match['kind']}")
        found.append(Directive(match["kind"] or "", _BLANKS.sub(" ", match["pattern"]).strip(), number))
    if not found:
        raise Mismatch(f"no check strings found with prefix '{prefix}:'")
    return found


def check(wanted: Sequence[Directive], output: str) -> None:
    """Check an output.

    Raises:
        Mismatch: the first directive that is not met.
    """
    text = _BLANKS.sub(" ", output)
    ends = [*_labels(wanted, text), len(text)]
    matcher = _Matcher(text)
    for directive in wanted:
        if directive.kind == "LABEL":
            matcher.finish_block()
            ends.pop(0)
            matcher.end = len(text)
            matcher.take(directive)
            matcher.end = ends[0]
            continue
        matcher.end = ends[0]
        matcher.take(directive)
    matcher.finish_block()


def _labels(wanted: Sequence[Directive], text: str) -> Iterator[int]:
    """Where the labels begin: each ends the block of what is checked before it."""
    at = 0
    for directive in wanted:
        if directive.kind == "LABEL":
            match = _expression(directive, {}).search(text, at)
            if match is None:
                raise _missing(directive)
            yield match.start()
            at = match.end()


@dataclass(slots=True)
class _Matcher:
    """Goes through a text: `at` is where the last match ended, `end` where the block does."""

    text: str
    at: int = 0
    end: int = 0
    variables: dict[str, str] = field(default_factory=dict)
    absent: list[Directive] = field(default_factory=list)
    group: list[tuple[int, int]] = field(default_factory=list)

    def take(self, directive: Directive) -> None:
        """Meet one directive."""
        if directive.kind == "NOT":
            self._leave_group()
            self.absent.append(directive)
        elif directive.kind == "DAG":
            self._take_any_order(directive)
        else:
            self._leave_group()
            match = self._find(directive, self.at)
            self._check_distance(directive, self.text.count("\n", self.at, match[0]))
            self._check_absent(match[0])
            self.at = match[1]

    def finish_block(self) -> None:
        """Nothing that must be absent is in what is left of the block."""
        self._leave_group()
        self._check_absent(self.end)

    def _take_any_order(self, directive: Directive) -> None:
        start = self.at
        while True:
            match = self._find(directive, start)
            taken = next((other for other in self.group if match[0] < other[1] and other[0] < match[1]), None)
            if taken is None:
                break
            start = taken[1]
        self.group.append(match)

    def _leave_group(self) -> None:
        if self.group:
            self._check_absent(min(start for start, _ in self.group))
            self.at = max(end for _, end in self.group)
            self.group = []

    def _find(self, directive: Directive, start: int) -> tuple[int, int]:
        match = _expression(directive, self.variables).search(self.text, start, self.end)
        if match is None:
            raise _missing(directive)
        self.variables |= match.groupdict()
        return match.span()

    def _check_distance(self, directive: Directive, lines: int) -> None:
        expected = {"NEXT": 1, "SAME": 0}.get(directive.kind, lines)
        if lines != expected:
            raise Mismatch(f"line {directive.line}: {directive.kind} is {lines} lines after the previous match")

    def _check_absent(self, end: int) -> None:
        for directive in self.absent:
            if _expression(directive, self.variables).search(self.text, self.at, end):
                raise Mismatch(f"line {directive.line}: excluded string found in input: {directive.pattern}")
        self.absent = []


def _expression(directive: Directive, variables: dict[str, str]) -> re.Pattern[str]:
    """A directive's pattern as a regular expression, in which `variables` stand for their values."""
    parts: list[str] = []
    defined: set[str] = set()
    at = 0
    for piece in _PIECE.finditer(directive.pattern):
        parts.append(re.escape(directive.pattern[at : piece.start()]))
        at = piece.end()
        name = piece["name"]
        if piece["regex"] is not None:
            parts.append(f"(?:{piece['regex']})")
        elif name is None:
            parts.append(str(directive.line + int(piece["offset"] or 0)))
        elif piece["defined"] is not None:
            parts.append(f"(?P<{name}>{piece['defined']})")
            defined.add(name)
        elif name in defined:
            parts.append(f"(?P={name})")
        elif name in variables:
            parts.append(re.escape(variables[name]))
        else:
            raise Mismatch(f"line {directive.line}: undefined variable {name}")
    parts.append(re.escape(directive.pattern[at:]))
    return re.compile("".join(parts), re.MULTILINE)


def _missing(directive: Directive) -> Mismatch:
    return Mismatch(f"line {directive.line}: expected string not found in input: {directive.pattern}")


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--check-prefix", default="CHECK")
    told = parser.parse_args()
    output = sys.stdin.read()
    try:
        check(directives(told.file.read_text(), told.check_prefix), output)
    except Mismatch as error:
        print(f"{told.file}: {error}\ninput was:\n{output}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
