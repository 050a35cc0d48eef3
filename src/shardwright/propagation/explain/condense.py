"""Long lists in short: what comes again and again is counted, and of the rest the ends are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Gap", "Repeat", "condensed"]

T = TypeVar("T")

_PERIOD = 100
"""The longest sequence that is looked for again; a layer of a model has some 30 ops on the way of one axis."""
_WORTH = 6
"""So many items must come again to be counted instead: fewer are as quickly read."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """The `period` items before come `times` more times."""

    period: int
    times: int


@dataclass(frozen=True, slots=True)
class Gap:
    """So many items are left out here."""

    count: int


def condensed(items: Sequence[T], ends: int) -> list[T | Repeat | Gap]:
    """The items with repetitions counted, and if that is still long, the first and last `ends` of it.

    >>> condensed(list("abcbcbcbcd"), ends=9)
    ['a', 'b', 'c', Repeat(period=2, times=3), 'd']
    >>> condensed(list("abcdefg"), ends=2)
    ['a', 'b', Gap(count=3), 'f', 'g']
    """
    short: list[T | Repeat | Gap] = [*_counted(items)]
    if len(short) <= 2 * ends + 1:
        return short
    last = len(short) - ends
    for index, item in enumerate(short):
        if isinstance(item, Repeat) and index >= last > index - item.period:
            last = index + 1  # what it repeats is left out
    return [*short[:ends], Gap(_size(short[ends:last])), *short[last:]]


def _counted(items: Sequence[T]) -> Iterator[T | Repeat]:
    place = since = 0  # the items from `since` to `place` stand right before
    while place < len(items):
        repeat = max(_repeats(items, since, place), key=lambda one: one.period * one.times, default=None)
        if repeat is None:
            yield items[place]
            place += 1
            continue
        yield repeat
        place += repeat.period * repeat.times
        since = place


def _repeats(items: Sequence[T], since: int, place: int) -> Iterator[Repeat]:
    """What items before `place` come again there, wherever that is worth counting."""
    for period in range(1, min(_PERIOD, place - since) + 1):
        end = place
        while items[end : end + period] == items[place - period : place]:
            end += period
        if end - place >= _WORTH:
            yield Repeat(period, (end - place) // period)


def _size(short: Iterable[object]) -> int:
    return sum(item.period * item.times if isinstance(item, Repeat) else 1 for item in short)
