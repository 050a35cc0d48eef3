"""Summaries say what was asked for, in units people read, on any width."""

from __future__ import annotations

import copy

import pytest

from shardwright.report.summary import Summary
from shardwright.report.text import difference_text, seconds_text, summary_page
from shardwright.words import bytes_text

NOTE = {
    "op": "stablehlo.reshape",
    "location": "gpt.py:33",
    "message": "operand 0 is gathered",
    "bytes": 512,
    "measure": "sent",
    "work": 0,
    "remedy": "let it lie otherwise",
    "is_fallback": False,
}
USE = {"static": 3, "executed": 96, "static_bytes": 300.0, "executed_bytes": 9600.0}
GROUP = {
    "name": "result/0/blocks",
    "outputs": 24,
    "ok": True,
    "largest_element_difference": 1.04e-07,
    "allowed_element_difference": 2e-06,
    "fraction_of_allowed": 0.052,
    "largest_norm_difference": 0.0,
}
SUMMARY: Summary = {
    "program": {"name": "gpt.mlir", "ops": 1585, "arguments": 87, "results": 86},
    "mesh": {"axes": {"data": 2, "model": 4}, "devices": 8},
    "tensors": {"annotated": 95, "completed": 1967},
    "collectives": {"kinds": {"all_reduce": USE}, "total": USE, "trip_counts_known": True},
    "memory": {
        "arguments": 429572,
        "donated": 0,
        "results": 1,
        "peak": 1879560,
        "peak_at": "op at gpt.py:86",
        "allocated": 1258291,
    },
    "verification": {
        "ok": True,
        "groups": [GROUP],
        "failures": [],
        "replica_failures": [],
        "runs": 5,
        "notes": [],
        "unsharded_seconds": 0.067,
        "sharded_seconds": 0.118,
    },
    "notes": [NOTE, NOTE],
    "seconds": {"load": 0.0401, "verify": 3.65},
    "written": {"local": "gpt.stages/local.mlir"},
}


def shown(width: int | None = None, **changes: object) -> str:
    return str(summary_page({**copy.deepcopy(SUMMARY), **changes}, width))


@pytest.mark.parametrize(
    "line",
    [
        "gpt.mlir: 1,585 ops, 87 arguments, 86 results",
        "mesh data=2 × model=4 (8 devices)",
        "  annotated by you   95",
        "  completed          1,967",
        "  all_reduce            3         96           9.4 KiB",
        "  arguments   419.5 KiB",
        "  peak        1.8 MiB (op at gpt.py:86)",
        "  allocated   1.2 MiB (once compilers have fused ops)",
        "Results: equal to the unsharded program",
        "  gpt.py:33: stablehlo.reshape: operand 0 is gathered, 1.0 KiB sent (2 times)",
        "  load     40 ms",
        "  verify   3.65 s",
        "  local   gpt.stages/local.mlir",
    ],
)
def test_every_part_has_its_line(line: str) -> None:
    assert line in shown().splitlines()


@pytest.mark.parametrize(
    ("fits", "line"),
    [
        (True, "  what is allocated fits into the 1.9 MiB of a box"),
        (False, "  what is allocated does NOT fit into the 1.9 MiB of a box"),
    ],
)
def test_a_hardware_that_was_given_and_whether_its_memory_is_enough(fits: bool, line: str) -> None:
    lines = shown(hardware={"name": "a box", "memory": 2e6}, memory={**SUMMARY["memory"], "fits": fits}).splitlines()
    assert lines[2] == "decided for a box"
    assert line in lines


def test_only_the_parts_that_are_there_are_shown() -> None:
    assert str(summary_page({"tensors": SUMMARY["tensors"]})).splitlines()[0] == "Tensors"


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(width).splitlines())) <= width


def test_narrow_terminals_get_one_value_a_line() -> None:
    assert "  all_reduce\n      in program: 3\n      executed: 96\n      sent per device: 9.4 KiB\n" in shown(40)


def test_results_that_differ_say_so_and_where() -> None:
    group = {**GROUP, "ok": False, "largest_element_difference": None}
    facts = {**SUMMARY["verification"], "ok": False, "groups": [group], "failures": ["result/1: differs by 0.1"]}
    text = shown(verification=facts)
    assert "Results: NOT equal to the unsharded program" in text
    assert "not finite" in text
    assert "  result/1: differs by 0.1" in text.splitlines()


def test_a_program_without_collectives() -> None:
    none = {"kinds": {}, "total": {**USE, "static": 0}, "trip_counts_known": True}
    assert "  none: no device needs anything of another" in shown(collectives=none).splitlines()


def test_fallbacks_come_first_with_their_work_and_with_what_would_avoid_them() -> None:
    fallback = {**NOTE, "op": "stablehlo.sort", "bytes": 0, "work": 24, "is_fallback": True}
    lines = shown(notes=[NOTE, fallback]).splitlines()
    first = lines.index("Notes (2, 1 fallback)") + 1
    assert lines[first : first + 3] == [
        "  gpt.py:33: stablehlo.sort: operand 0 is gathered, 24 multiply-adds more on each device",
        "    change: let it lie otherwise",
        "  gpt.py:33: stablehlo.reshape: operand 0 is gathered, 512 B sent",
    ]


def test_many_notes_are_cut_and_counted() -> None:
    notes = [{**NOTE, "message": f"operand {number} is gathered"} for number in range(40)]
    assert "  … and 28 more; --json lists all" in shown(notes=notes).splitlines()


def test_many_notes_that_say_the_same_are_one_line_where_most_of_it_is_with_the_costs_of_all() -> None:
    notes = [{**NOTE, "location": f"gpt.py:{line}", "bytes": 1024 * (1 + (line == 7))} for line in range(40)]
    fallbacks = [{**NOTE, "op": "stablehlo.sort", "location": f"gpt.py:{line}", "is_fallback": True} for line in (1, 2)]
    lines = shown(notes=[*notes, *fallbacks]).splitlines()
    first = lines.index("Notes (42, 2 fallbacks)") + 1
    assert lines[first : first + 5] == [
        "  gpt.py:1: stablehlo.sort: operand 0 is gathered, 512 B sent",
        "    change: let it lie otherwise",
        "  gpt.py:2: stablehlo.sort: operand 0 is gathered, 512 B sent",
        "    change: let it lie otherwise",
        "  gpt.py:7: stablehlo.reshape: operand 0 is gathered, 41.0 KiB sent (40 such, the costliest there)",
    ]
    assert not any("more; --json" in line for line in lines)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 20, "1.0 MiB"), (5 << 40, "5.0 TiB")]
)
def test_bytes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.00012, "120 µs"), (0.0123, "12 ms"), (61.5, "61.50 s")])
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (1.234e-7, "1.2e-07"), (None, "not finite")])
def test_differences(value: float | None, text: str) -> None:
    assert difference_text(value) == text


@pytest.mark.parametrize("most_held", [None, 1024])
@pytest.mark.parametrize("is_left", [False, True])
def test_what_a_search_found_and_left_is_compared_with_nothing(is_left: bool, most_held: int | None) -> None:
    summary = copy.deepcopy(SUMMARY)
    summary["search"] = {
        "otherwise": 0,
        "seconds": 9e-6,
        "seconds_before": 9e-6,
        "seconds_least": 8e-6,
        "trials": 2,
        "seconds_least_alike": 8e-6,
        "is_left": is_left,
        "most_held": most_held,
    }
    text = str(summary_page(summary))
    assert ("left: see the notes" in text) == is_left
    assert ("to which 12.50% are missing" in text) != is_left
    assert ("least, with no larger tensors" in text) == (most_held is not None)
