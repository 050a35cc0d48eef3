"""Text fits its width: nothing is cut off, nothing is padded, and without a width nothing is broken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.report.layout import Page

words = st.lists(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12), max_size=12)
rows = st.lists(st.tuples(words.map(" ".join), words.map(" ".join)), min_size=1, max_size=5)


@given(words.map(" ".join), st.integers(20, 60))
def test_a_line_is_broken_between_words_only(text: str, width: int) -> None:
    page = Page(width)
    page.line(text)
    lines = str(page).splitlines()
    assert all(len(line) <= width for line in lines)
    assert " ".join(str(page).split()) == text


@given(rows, st.integers(24, 60))
def test_a_table_fits_or_folds_and_loses_nothing(table: list[tuple[str, str]], width: int) -> None:
    page = Page(width)
    page.table(("name", "value"), table)
    assert all(len(line) <= width for line in str(page).splitlines())
    shown = re.sub(r"\s", "", str(page))
    assert all(re.sub(r"\s", "", cell) in shown for row in table for cell in row)


@given(rows)
def test_nothing_is_padded_on_the_right(table: list[tuple[str, str]]) -> None:
    page = Page()
    page.table((), table)
    assert all(line == line.rstrip() for line in str(page).splitlines())


def test_without_a_width_lines_are_as_long_as_they_are() -> None:
    page = Page()
    page.line("word " * 200)
    page.pairs([("name", "a/long/path/" * 50)])
    assert len(page.lines) == 2


def test_numbers_are_aligned_on_the_right() -> None:
    page = Page(80)
    page.table(("", "bytes"), [("a", "1"), ("total", "1,000")])
    assert str(page).splitlines() == ["          bytes", "  a           1", "  total   1,000"]


@pytest.mark.parametrize("width", [None, 80])
def test_an_empty_table_is_nothing(width: int | None) -> None:
    page = Page(width)
    page.pairs([])
    assert str(page) == ""
