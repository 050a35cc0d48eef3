"""What notebooks show of programs, plans and partitioned programs."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import shardwright as sw
from shardwright.program.program import EXAMPLE


def shown(value: object) -> tuple[str, int]:
    """The words of what a notebook shows, and how many rows of tables; it is well-formed."""
    page = ElementTree.fromstring(f"<div>{value._repr_html_()}</div>")  # type: ignore[attr-defined]
    return " ".join(page.itertext()), len(page.findall(".//tr"))


@pytest.fixture(scope="module")
def program() -> sw.Program:
    return sw.load(EXAMPLE)


def test_a_program_shows_arguments_and_results(program: sw.Program) -> None:
    words, rows = shown(program)
    assert rows == 1 + 3
    assert "tensor<64x256xf32>" in words


def test_a_plan_shows_shardings_and_which_were_given(program: sw.Program) -> None:
    plan = program.shard(sw.Mesh(data=2, model=4), {"w": "-,model"})
    words, rows = shown(plan)
    assert rows == 1 + 3
    assert "[{}, {model}]" in words
    assert "16.0 KiB" in words, "a quarter of w"
    bold = ElementTree.fromstring(f"<div>{plan._repr_html_()}</div>").findall(".//b")
    assert [one.text for one in bold][:2] == ["argument", "w"]


def test_a_partitioned_program_shows_what_it_sends_and_holds(program: sw.Program) -> None:
    spmd = program.shard(sw.Mesh(data=2, model=4), {"x": "-,model", "w": "model,-"}).partition()
    words, _ = shown(spmd)
    assert "all_reduce" in words
    assert "peak" in words


def test_of_many_rows_the_first_are_shown() -> None:
    arguments = ", ".join(f"%a{number}: tensor<4xf32>" for number in range(60))
    text = f"func.func @main({arguments}) -> tensor<4xf32> {{\n  return %a0 : tensor<4xf32>\n}}"
    words, rows = shown(sw.load(text))
    assert rows == 1 + 40
    assert "… and 21 more rows" in words
