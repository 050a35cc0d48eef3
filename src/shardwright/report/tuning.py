"""What other shardings would come to, as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardwright.report.layout import Page
from shardwright.report.summary import Summary
from shardwright.words import bytes_text, counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_orders", "print_tuning"]


def print_tuning(out: Console, summary: Summary) -> None:
    """Print a table of the best, as `Tuned.summary` tells them, folded to the width of a terminal."""
    page = Page(out.width if out.is_terminal else None)
    refused = f", {summary['refused']:,} more cannot be split so" if summary["refused"] else ""
    page.line(f"{counted(summary['tried'], 'other sharding', ',')} tried, one at a time{refused}", indent=0)
    now = summary["now"]
    rows = [("now", *_cells(now, now), "", "", "", "")]
    rows += [(str(number), *_row(one, now)) for number, one in enumerate(summary["best"], 1)]
    page.table(("", "takes", "of now", "sends", "holds", "tensors", "argument", "lies", "would lie"), rows)
    page.print(out)


def print_orders(out: Console, summary: Summary) -> None:
    """Print a table of orders of axes, as `Ordered.summary` tells them, folded to the width of a terminal."""
    page = Page(out.width if out.is_terminal else None)
    page.line(f"{counted(summary['tried'], 'order')} of the axes tried, what goes farthest first", indent=0)
    now = summary["now"]
    rows = [("now", *_cells(now, now), "")]
    rows += [
        (str(number), *_cells(one, now), ", ".join(one["axes"])) for number, one in enumerate(summary["orders"], 1)
    ]
    page.table(("", "takes", "of now", "sends", "holds", "axes"), rows)
    page.print(out)


def _row(one: Summary, now: Summary) -> tuple[str, ...]:
    first, *more = one["arguments"]
    name = f"{first} and {len(more)} alike" if more else first
    return (*_cells(one, now), f"{one['changed']:,}", name, one["before"], one["after"])


def _cells(one: Summary, now: Summary) -> tuple[str, ...]:
    share = f"{one['seconds'] / now['seconds']:.3f} ×" if now["seconds"] else ""
    return f"{one['seconds'] * 1e6:,.2f} µs", share, bytes_text(one["bytes_sent"]), bytes_text(one["peak_bytes"])
