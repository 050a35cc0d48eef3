"""Explanations for people."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from shardwright.propagation import Explanation, format_explanation

__all__ = ["print_explanations"]


def print_explanations(out: Console, explanations: Iterable[Explanation]) -> None:
    """Print explanations, the value of each in bold, an empty line between them."""
    for number, explanation in enumerate(explanations):
        first, *rest = format_explanation(explanation).split("\n")
        if number:
            out.print()
        out.print(Text(first, style="bold"))
        for line in rest:
            out.print(Text(line))
