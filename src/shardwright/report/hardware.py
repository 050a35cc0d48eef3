"""Hardware as people read it: a line each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardwright.cost.hardware import Sheet
from shardwright.report.layout import Page

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["decimal_text", "print_sheets", "sheets_page"]

_PREFIXES = {1e15: "P", 1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 1.0: "", 1e-3: "m", 1e-6: "µ", 1e-9: "n"}


def print_sheets(out: Console, sheets: Mapping[str, Sheet], default: str) -> None:
    """Print a table of data sheets by name, folded to the width of a terminal."""
    sheets_page(sheets, default, out.width if out.is_terminal else None).print(out)


def sheets_page(sheets: Mapping[str, Sheet], default: str, width: int | None = None) -> Page:
    """A table of data sheets by name, and which is taken unasked."""
    page = Page(width)
    rows = [(name, *_cells(sheet)) for name, sheet in sheets.items()]
    heads = "is", "sends one way", "starts in", "computes bf16", "holds", "and moves", "between nodes of"
    page.table(("", *heads), rows)
    page.heading(
        f"{default} unless --hardware names another, or a file as `shardwright hardware {default}` prints it",
        style="dim",
    )
    return page


def _cells(sheet: Sheet) -> tuple[str, ...]:
    number = {name: figure.value for name, figure in sheet.figures.items()}
    work = number["compute"]
    return (
        sheet.name,
        decimal_text(number["link"], "B/s") + (f" × {number['torus']:.0f}-D" if "torus" in number else ""),
        decimal_text(number["start"], "s"),
        decimal_text(work, "flop/s") if math.isfinite(work) else "at no cost",
        decimal_text(number["memory"], "B") if "memory" in number else "",
        decimal_text(number["memory_traffic"], "B/s") if "memory_traffic" in number else "",
        _between_nodes(number),
    )


def _between_nodes(number: Mapping[str, float]) -> str:
    """How many devices a node has, and what a device sends to others."""
    if "node" not in number:
        return ""
    speed = f": {decimal_text(number['network'], 'B/s')}" if "network" in number else ""
    return f"{number['node']:,.0f}{speed}"


def decimal_text(value: float, unit: str) -> str:
    """A positive amount with the decimal prefix of its unit, as data sheets have it.

    >>> decimal_text(4.5e11, "B/s"), decimal_text(6.6e-6, "s"), decimal_text(2.25e15, "flop/s"), decimal_text(1, "B/s")
    ('450 GB/s', '6.6 µs', '2.25 Pflop/s', '1 B/s')
    """
    factor = next((factor for factor in _PREFIXES if value >= factor * (1 - 1e-9)), min(_PREFIXES))
    return f"{value / factor:.4g} {_PREFIXES[factor]}{unit}"
