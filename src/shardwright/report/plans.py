"""What differs between two plans, as a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shardwright.report.layout import Page
from shardwright.report.summary import Summary
from shardwright.words import bytes_text, counted

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_difference"]

_NUMBER = re.compile(r"\d+")
_SIDES = ("before", "after")
_ABSENT = "(nothing)"
_FIGURES = {"seconds": "takes", "bytes_sent": "sends", "argument_bytes": "arguments", "peak_bytes": "peak"}


def print_difference(out: Console, summary: Summary) -> None:
    """Print what `Difference.summary` tells, folded to the width of a terminal; what is alike but for numbers in names
    stands once.
    """
    page = Page(out.width if out.is_terminal else None)
    _pairs(page, "Mesh", summary["mesh"])
    otherwise = [one for one in summary["arguments"] if None not in (one["before"], one["after"])]
    if otherwise:
        page.heading(f"Arguments: {len(otherwise):,} of {summary['compared']:,} in both lie otherwise")
        _table(page, otherwise)
    for title, side in (("Arguments of the first alone", "after"), ("Arguments of the second alone", "before")):
        _listed(page, title, [one for one in summary["arguments"] if one[side] is None])
    if summary["results"]:
        page.heading("Results")
        _table(page, summary["results"])
    if summary["modules"]:
        page.heading("What modules take and give")
        _table(page, summary["modules"])
    _pairs(page, "Lie alike, annotated otherwise", _grouped(summary["given"]))
    _pairs(page, "Types", _grouped(summary["types"]))
    _pairs(page, "Constraints inside", summary["constraints"])
    _pairs(page, "How", summary["how"])
    _outcome(page, summary["outcome"])
    if not page.lines:
        page.line(f"The plans say the same of {counted(summary['compared'], 'argument', ',')}.", indent=0)
    page.print(out)


def _grouped(changes: Sequence[Summary]) -> list[Summary]:
    """Changes, those once that are alike but for the numbers in their names."""
    groups: dict[Any, list[Summary]] = {}
    for one in changes:
        key = (_NUMBER.sub("*", one["name"]), *(value for name, value in one.items() if name != "name"))
        groups.setdefault(key, []).append(one)
    return [
        {**one, "name": f"{one['name']} and {len(more)} alike" if more else one["name"]}
        for one, *more in groups.values()
    ]


def _table(page: Page, changes: Sequence[Summary]) -> None:
    rows = [
        (
            one["name"],
            _shown(one["before"]),
            _shown(one["after"]),
            _held(one["bytes_before"]),
            _held(one["bytes_after"]),
        )
        for one in _grouped(changes)
    ]
    page.table(("", "lies", "will lie", "holds", "will hold"), rows)


def _listed(page: Page, title: str, changes: Sequence[Summary]) -> None:
    if changes:
        page.heading(f"{title}: {len(changes):,}")
        page.pairs([(one["name"], str(one["before"] or one["after"] or _ABSENT)) for one in _grouped(changes)])


def _pairs(page: Page, title: str, changes: Sequence[Summary]) -> None:
    if changes:
        page.heading(title)
        page.pairs([(one["name"], f"{_shown(one['before'])} → {_shown(one['after'])}") for one in changes])


def _outcome(page: Page, changes: Sequence[Summary]) -> None:
    if not changes:
        return
    page.heading("What it comes to on each device")
    rows = [
        (_FIGURES.get(one["name"]) or str(one["name"]), *(_figure(one["name"], one[side]) for side in _SIDES))
        for one in changes
    ]
    page.table(("", "first", "second"), rows)


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return _ABSENT
    if name == "seconds":
        return f"{value * 1e6:,.2f} µs"
    return f"{value:,}" if name == "collectives" else bytes_text(value)


def _held(bytes: int | None) -> str:
    return "" if bytes is None else bytes_text(bytes)


def _shown(value: Any) -> str:
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f'"{value}"' if value == "" else str(value)
