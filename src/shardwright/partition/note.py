"""What users are told of how a program was partitioned, one thing at a time, and a program that may not need it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardwright.errors import ShardingError
from shardwright.words import cost_text, counted

__all__ = ["Note", "at_place", "check_strict"]

_LISTED = 20
"""Fallbacks that an error names."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a user may want to know of how an op was partitioned.

    A *fallback* is what is done otherwise than asked for because nothing better is known: an op that is computed whole
    or a tensor that is gathered for want of a local form, a sharding that is cut or dropped. All else is told, and is
    none: a tensor that is gathered because the shardings of an op's tensors do not agree, or because that is cheaper
    than what devices would exchange instead; one that is split along another dimension, which leaves each device its
    share; a collective that nobody reads.

    Attributes:
        op: The op as users know it.
        location: Its place in the source.
        message: What was done, and why.
        bytes: Bytes per device because of it, once.
        measure: Whether these are `sent`, `held` beyond what was asked for, or `spared`.
        work: Multiply-adds that each device does beyond its share because of it, once, as far as that is known.
        remedy: What would avoid it, or empty.
        is_fallback: Whether it is a fallback.
    """

    op: str
    location: str
    message: str
    bytes: int
    measure: str = "sent"
    work: int = 0
    remedy: str = ""
    is_fallback: bool = True


def at_place(notes: Iterable[Note], location: str) -> list[Note]:
    """Notes of an op, told of where that stands."""
    return [
        Note(one.op, location, one.message, one.bytes, one.measure, one.work, one.remedy, one.is_fallback)
        for one in notes
    ]


def check_strict(notes: Iterable[Note]) -> None:
    """Refuse what needed a fallback.

    Raises:
        ShardingError: naming every fallback, at the place of the first.
    """
    fallbacks = list(dict.fromkeys(note for note in notes if note.is_fallback))
    if not fallbacks:
        return
    first = fallbacks[0]
    lines = [_line(note) for note in fallbacks[:_LISTED]]
    if len(fallbacks) > _LISTED:
        lines.append(f"and {len(fallbacks) - _LISTED} more: `Spmd.notes` lists all")
    remedies = dict.fromkeys(note.remedy for note in fallbacks if note.remedy)
    indent = "\n          "
    raise ShardingError(
        f"it cannot be partitioned strictly: {counted(len(fallbacks), 'fallback')}",
        op=first.op,
        location=first.location,
        cause=indent.join(lines),
        remedy=indent.join([*list(remedies)[:_LISTED], "or do without strict"]),
    )


def _line(note: Note) -> str:
    place = f"{note.location}: " if note.location else ""
    cost = cost_text(note.bytes, note.measure, note.work)
    return f"{place}{note.op}: {note.message}{f', {cost}' if cost else ''}"
