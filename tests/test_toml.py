"""What is written as TOML is read back by Python's reader, whatever it holds."""

from __future__ import annotations

import math
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardwright.errors import ShardingError
from shardwright.toml import line_of_key, lines_of_keys, parse_toml, toml_text

PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = TEXTS | st.integers() | st.booleans() | st.floats(allow_nan=False)
INLINE: st.SearchStrategy[Any] = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
TABLES = st.dictionaries(TEXTS, INLINE, max_size=3)
DOCUMENTS = st.dictionaries(TEXTS, INLINE | TABLES | st.lists(TABLES, max_size=3), max_size=4)


@PROPERTY
@given(DOCUMENTS)
def test_what_is_written_is_read_back(content: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(content)) == content
    assert list(tomllib.loads(toml_text(content))) == sorted(content, key=lambda key: is_below_a_header(content[key]))


def is_below_a_header(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and all(map(is_table, value)))


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


@PROPERTY
@given(DOCUMENTS)
def test_every_key_has_its_line(content: dict[str, Any]) -> None:
    lines = toml_text(content).split("\n")
    for path, number in lines_of_keys(toml_text(content)).items():
        assert lines[number - 1].startswith(("[", '"', path[-1]))
    tables = [key for key, value in content.items() if is_table(value)]
    assert all(line_of_key(toml_text(content), key, name) for key in tables for name in content[key])


@pytest.mark.parametrize("number", [math.inf, -math.inf, 1e-300, 1e22, 5e-324, 0.1, -0.0])
def test_numbers_come_back_to_the_bit(number: float) -> None:
    assert str(tomllib.loads(toml_text({"x": number}))["x"]) == str(number)


def test_what_is_no_toml_is_told_with_line_and_column() -> None:
    with pytest.raises(ShardingError) as caught:
        parse_toml("a = 1\nb = \n", "file.toml", "the thing", "write it so")
    assert str(caught.value).startswith("file.toml:2:5: error: the thing is not TOML")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[arguments]\n"w" = 1', 2),
        ("[arguments]\n'w' = 1", 2),
        ("[ 'arguments' ]\n  w= 1", 2),
        ("arguments.w = 1", 1),
        ("\n[[arguments]]\nv = 1", 2),
        ('\narguments = {"w" = 1}', 2),
        ("[other]\nw = 1", 0),
        ('[arguments]\n"a.w" = 1\n"\\q" = 2', 1),
    ],
)
def test_lines_are_found_however_keys_are_written(text: str, line: int) -> None:
    assert line_of_key(text, "arguments", "w") == line
