"""Lines, pairs and tables that fit a width: aligned where there is room, one value a line where there is not.

Nothing is padded on the right, and without a width nothing is broken, so that piped text can be searched and compared.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Page", "console"]

_GAP = "   "


def console(*, stderr: bool = False) -> Console:
    """A console that breaks no line by itself; it writes colours to terminals only."""
    from rich.console import Console  # here and below: rich is loaded when something is printed

    return Console(file=sys.stderr if stderr else sys.stdout, highlight=False, soft_wrap=True, emoji=False)


class Page:
    """Text in the making: lines, each with a style.

    >>> page = Page(width=30)
    >>> page.heading("Memory")
    >>> page.pairs([("arguments", "3.3 KiB"), ("peak", "120.6 KiB at examples/gpt.py:33")])
    >>> print(page)
    Memory
      arguments
          3.3 KiB
      peak
          120.6 KiB at
              examples/gpt.py:33
    """

    def __init__(self, width: int | None = None) -> None:
        """Start an empty page, `width` columns wide; `None` where lines may be as long as they are."""
        self.width = width
        self.lines: list[tuple[str, str]] = []

    def __str__(self) -> str:
        """The lines without styles."""
        return "\n".join(text for text, _ in self.lines)

    def print(self, out: Console) -> None:
        """Print the lines in their styles."""
        from rich.text import Text

        for text, style in self.lines:
            out.print(Text(text, style=style))

    def heading(self, text: str, style: str = "bold") -> None:
        """An empty line and a heading."""
        if self.lines:
            self.lines.append(("", ""))
        self.line(text, indent=0, style=style)

    def line(self, text: str, indent: int = 2, style: str = "") -> None:
        """A line, broken between words where it is too long, the rest of it indented further."""
        first, rest = " " * indent, " " * (indent + 4)
        if self.width is None or len(first) + len(text) <= self.width:
            self.lines.append((first + text, style))
            return
        width = max(self.width, indent + 12)
        for part in textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
            self.lines.append((part, style))

    def pairs(self, rows: Sequence[tuple[str, str]]) -> None:
        """Names and what is said of them, aligned."""
        self.table((), rows)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table: names in the first column, and beside it numbers, aligned on the right where there are headings."""
        every = [headings, *rows] if headings else list(rows)
        widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))] if every else []
        if self.width is not None and 2 + sum(widths) + len(_GAP) * (len(widths) - 1) > self.width:
            self._folded(headings, rows)
            return
        for row in every:
            cells = [
                text.rjust(width) if column and headings else text.ljust(width)
                for column, (text, width) in enumerate(zip(row, widths, strict=True))
            ]
            self.lines.append((("  " + _GAP.join(cells)).rstrip(), "dim" if row is headings else ""))

    def _folded(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        for name, *values in rows:
            self.line(name)
            for number, value in enumerate(values):
                text = f"{headings[number + 1]}: {value}" if headings else value
                if value:
                    self.line(text, indent=6)
