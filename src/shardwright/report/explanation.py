"""Explanations for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from shardwright.propagation import Explanation
from shardwright.propagation.explain.explanation import outline, shown_unasked
from shardwright.report.layout import Page

__all__ = ["explanations_page", "print_explanations"]


def print_explanations(out: Console, explanations: Sequence[Explanation], *, everything: bool = False) -> None:
    """Print explanations, the value of each in bold, folded to the width of a terminal."""
    explanations_page(explanations, out.width if out.is_terminal else None, everything=everything).print(out)


def explanations_page(
    explanations: Sequence[Explanation], width: int | None = None, *, everything: bool = False
) -> Page:
    """Explanations with an empty line between them; with `everything`, all of them, and all links and stops."""
    page = Page(width)
    shown, rest = (explanations, "") if everything else shown_unasked(explanations)
    for explanation in shown:
        first, *lines = [line for section in outline(explanation, everything) for line in section.lines(width)]
        page.heading(first)
        for line in lines:
            text = line.lstrip()
            page.line(text, indent=len(line) - len(text))
    if rest:
        page.heading(rest, style="")
    return page
