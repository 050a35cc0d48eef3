"""Data sheets from TOML, and what to say of what is none: the line, the key, why, and what to write.

Figures stand in tables: a number, under a key that names its unit, and where it comes from, `source`. Of a number that
comes from elsewhere than the first of its table a key of its own says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter
from typing import Any

from shardwright.cost.hardware.figures import FIGURES, Figure
from shardwright.cost.hardware.sheet import Sheet, Sourced, number_text
from shardwright.errors import ShardingError
from shardwright.toml import line_of_key, parse_toml
from shardwright.words import kind_of

__all__ = ["parse_sheet"]

_TABLES = {table: tuple(group) for table, group in groupby(FIGURES, attrgetter("table"))}


def parse_sheet(text: str, location: str) -> Sheet:
    """The data sheet that a text is.

    Arguments:
        text: TOML: `name`, and the tables of `FIGURES`.
        location: What diagnostics call it.

    Raises:
        ShardingError: text that is not TOML, a key that is missing or unknown, a figure that is not a positive finite
            number, a network without nodes; with the line, and what to write.
    """
    remedy = "write it as `shardwright hardware h100` prints one"
    content = parse_toml(text, location, "the data sheet of a hardware", remedy)
    reader = _Reader(text, location)
    for key in content:
        if key not in ("name", *_TABLES):
            raise reader.unknown("", key, ["name", *_TABLES])
    figures: dict[str, Sourced] = {}
    name = reader.words(content, "", "name", "h100 in our box")
    for table, some in _TABLES.items():
        if some[0].is_needed or table in content:
            figures |= reader.table(content, some)
    if "network" in figures and "node" not in figures:
        raise reader.without_nodes()
    if "ring" in figures and "torus" not in figures:
        raise reader.without_dimensions()
    return Sheet(name, figures)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes values out of what was read, and says in which line they are wrong."""

    text: str
    location: str

    def table(self, content: dict[str, Any], figures: Sequence[Figure]) -> dict[str, Sourced]:
        """The figures of a table that it has: all that are needed, and one in any case."""
        first = figures[0]
        table, example = first.table, _example(first)
        values = content.get(table)
        if not isinstance(values, dict):
            has_none = table not in content
            raise self._error(
                f"there is no table [{table}]" if has_none else f"{table} is {_shown(values)}, and not a table",
                "" if has_none else table,
                cause=f"it says {first.meaning}",
                remedy=f'write [{table}], and below it {example} and source = "where that is from"',
            )
        known = [key for figure in figures for key in (figure.key, figure.source_key)]
        for key in values:
            if key not in known and key != "source":
                raise self.unknown(table, key, known)
        said = values.keys() - {"source"}
        some = [one for one in figures if one.is_needed or not said.isdisjoint((one.key, one.source_key))]
        return {one.name: self._figure(values, one) for one in some or [first]}

    def _figure(self, values: dict[str, Any], figure: Figure) -> Sourced:
        """A number and its source."""
        number = self._number(values, figure)
        key = figure.source_key if figure.source_key in values else "source"
        return Sourced(number, self.words(values, figure.table, key, "where the number is from"))

    def _number(self, values: dict[str, Any], figure: Figure) -> float:
        """A positive number, finite where it has to be."""
        table, key, example = figure.table, figure.key, _example(figure)
        if key not in values:
            raise self._error(f"{table}.{key} is missing", table, cause=figure.meaning, remedy=f"write {example}")
        value = values[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        number = _as_float(value) if is_number else math.nan
        if number > 0 and (math.isfinite(number) or (figure.may_be_infinite and isinstance(value, float))):
            if not figure.is_whole or number.is_integer():
                return number
            kind = "a whole number"
        else:
            kind = "a positive number" if is_number and value <= 0 else "a finite number" if is_number else "a number"
        raise self._error(
            f"{table}.{key} is {_shown(value)}",
            table,
            key,
            cause=f"a figure is {kind}: {figure.meaning}",
            remedy=f"write it as {example}",
        )

    def words(self, values: dict[str, Any], table: str, key: str, example: str) -> str:
        """A text of one line that is not empty."""
        full = f"{table}.{key}" if table else key
        remedy = f'write {key} = "{example}"'
        if key not in values:
            cause = "every figure says where it is from" if table else "messages call the hardware by it"
            raise self._error(f"{full} is missing", table, cause=cause, remedy=remedy)
        value = values[key]
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._error(f"{full} is {_shown(value)}", table, key, cause="it is a line of text", remedy=remedy)
        return value

    def without_nodes(self) -> ShardingError:
        """What to say of a network between nodes of which nothing is known."""
        return self._error(
            "[network] stands without [node]",
            "network",
            cause="nobody knows which devices it joins",
            remedy='write [node], and below it devices = 8.0 and source = "where that is from"',
        )

    def without_dimensions(self) -> ShardingError:
        """What to say of rings of a torus of which nothing else is known."""
        return self._error(
            "torus.dimensions is missing",
            "torus",
            cause="nobody knows how many of them close into rings",
            remedy="write dimensions = 3.0",
        )

    def unknown(self, table: str, key: str, known: list[str]) -> ShardingError:
        """What to say of a key that nothing reads."""
        close = get_close_matches(key[:200], known, n=1)
        at = (table, key) if table else (key,)
        return self._error(
            f"unknown key {'.'.join(at)[:200]!r}",
            *at,
            cause=f"{f'[{table}]' if table else 'a data sheet'} has {', '.join(known)}",
            remedy=f"write {close[0]}" if close else "leave it out",
        )

    def _error(self, message: str, table: str, key: str = "", *, cause: str, remedy: str) -> ShardingError:
        line = line_of_key(self.text, table, key)
        where = f"{self.location}:{line}" if line else self.location
        return ShardingError(message, location=where, cause=cause, remedy=remedy)


def _example(figure: Figure) -> str:
    return f"{figure.key} = {number_text(figure.example)}"


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(value: Any) -> str:
    """A value of TOML, in short."""
    if isinstance(value, dict | list):
        return kind_of(value)
    if isinstance(value, int) and abs(value) > 1 << 64:
        return "beyond all numbers of its kind"
    return "true" if value is True else "false" if value is False else repr(value)[:80]
