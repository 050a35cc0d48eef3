"""Data sheets that are none: what is wrong, in which line, and what to write."""

from __future__ import annotations

import pytest

from shardwright.cost.hardware import sheet_of
from shardwright.cost.hardware.read import parse_sheet
from shardwright.cost.hardware.sheet import Sheet, Sourced
from shardwright.errors import ShardingError

GOOD = """\
name = "a box"

[link]
bytes_per_second = 1e10  # one way
source = "measured"

[start]
seconds = 5e-6
source = "measured"

[compute]
bf16_operations_per_second = 2000000000000
source = "its maker"

[memory]
bytes = 16_000_000_000
source = "its maker"
"""


def refused(text: str) -> tuple[str, str]:
    """The first line of what is said, and what to change."""
    with pytest.raises(ShardingError) as caught:
        parse_sheet(text, "box.toml")
    diagnostic = caught.value.diagnostic
    assert diagnostic.cause
    return str(caught.value).splitlines()[0], diagnostic.remedy


def test_a_good_one() -> None:
    hardware = parse_sheet(GOOD, "box.toml").hardware
    assert (hardware.name, hardware.bytes_per_second, hardware.start_seconds) == ("a box", 1e10, 5e-6)
    assert (hardware.multiply_adds_per_second, hardware.memory_bytes) == (1e12, 1.6e10)


def test_the_memory_need_not_be_known() -> None:
    without = parse_sheet(GOOD[: GOOD.index("[memory]")], "box.toml").hardware
    assert (without.memory_bytes, without.memory_bytes_per_second) == (None, None)


def test_of_the_memory_its_size_or_its_speed_may_be_known_or_both() -> None:
    speed = parse_sheet(GOOD.replace("bytes = 16_000_000_000", "bytes_per_second = 2e12"), "box.toml")
    assert (speed.hardware.memory_bytes, speed.hardware.memory_bytes_per_second) == (None, 2e12)
    assert parse_sheet(speed.text(), "again") == speed
    both = parse_sheet(GOOD.replace("16_000_000_000", "16_000_000_000\nbytes_per_second = 2e12"), "box.toml")
    assert (both.hardware.memory_bytes, both.hardware.memory_bytes_per_second) == (1.6e10, 2e12)
    assert parse_sheet(both.text(), "again") == both


def test_peaks_of_other_types_stand_beside_that_of_bf16_with_a_source_of_their_own_or_its() -> None:
    more = 'bf16_operations_per_second = 2e12\nf32_operations_per_second = 5e11\nf32_source = "measured"\n'
    text = GOOD.replace("bf16_operations_per_second = 2000000000000\n", "i8_operations_per_second = 4e12\n" + more)
    sheet = parse_sheet(text, "box.toml")
    assert sheet.hardware.peaks == (("f32", 5e11), ("i8", 4e12))
    assert (sheet.figures["f32"].source, sheet.figures["i8"].source) == ("measured", "its maker")
    assert parse_sheet(sheet.text(), "again") == sheet
    assert sheet.summary()["compute"]["f32_source"] == "measured"


def test_text_of_any_kind_comes_back() -> None:
    odd = Sheet('a "box" \\ in µ\U0001f600', {name: Sourced(1.5e-7, "it's") for name in ("link", "start", "compute")})
    assert parse_sheet(odd.text(), "odd") == odd


BAD = {
    "no TOML": ("seconds = 5e-6", "seconds = five", "box.toml:8:11: error: the data sheet of a hardware is not TOML"),
    "cut off": ('source = "measured"\n\n[start]', 'source = "measured', "box.toml:5:"),
    "a key twice": ("seconds = 5e-6", "seconds = 5e-6\nseconds = 6e-6", "box.toml:9:"),
    "no name": ('name = "a box"', "", "box.toml: error: name is missing"),
    "an empty name": ("a box", " ", "box.toml:1: error: name is ' '"),
    "a name of two lines": ("a box", "a\\nbox", "box.toml:1: error: name is 'a\\nbox'"),
    "a name that is a number": ('"a box"', "5", "box.toml:1: error: name is 5"),
    "no table": ("[start]", "[ start.more ]", "box.toml:7: error: unknown key 'start.more'"),
    "a table is missing": ('[start]\nseconds = 5e-6\nsource = "measured"\n', "", "box.toml: error: there is no table [start]"),
    "a table that is none": (GOOD[GOOD.index("\n[link]") :], "link = 5", "box.toml:2: error: link is 5, and not a table"),
    "an unknown table": ("[memory]", "[memroy]", "box.toml:15: error: unknown key 'memroy'"),
    "an unknown key": ("seconds = 5e-6", "seconds = 5e-6\nhops = 3", "box.toml:9: error: unknown key 'start.hops'"),
    "a key misspelt": ("seconds = 5e-6", "second = 5e-6", "box.toml:8: error: unknown key 'start.second'"),
    "no figure": ("seconds = 5e-6", "", "box.toml:7: error: start.seconds is missing"),
    "no source": ('seconds = 5e-6\nsource = "measured"', "seconds = 5e-6", "box.toml:7: error: start.source is missing"),
    "an empty source": ('"its maker"\n\n[m', '""\n\n[m', "box.toml:13: error: compute.source is ''"),
    "text": ("5e-6", '"5e-6"', "box.toml:8: error: start.seconds is '5e-6'"),
    "a truth": ("5e-6", "true", "box.toml:8: error: start.seconds is true"),
    "a list": ("5e-6", "[5e-6]", "box.toml:8: error: start.seconds is a list"),
    "zero": ("5e-6", "0", "box.toml:8: error: start.seconds is 0"),
    "negative": ("1e10", "-1e10", "box.toml:4: error: link.bytes_per_second is -10000000000.0"),
    "minus infinity": ("2000000000000", "-inf", "box.toml:12: error: compute.bf16_operations_per_second is -inf"),
    "infinite": ("1e10", "inf", "box.toml:4: error: link.bytes_per_second is inf"),
    "a memory without figures": ("bytes = 16_000_000_000\n", "", "box.toml:15: error: memory.bytes is missing"),
    "a source of nothing": ("[memory]", '[memory]\nbytes_per_second_source = "a"', "box.toml:15: error: memory.bytes_per_second is missing"),
    "no peak of bf16": ("bf16_op", "f32_op", "box.toml:11: error: compute.bf16_operations_per_second is missing"),
    "a peak that is none": ('source = "its maker"\n\n[m', 'f8_operations_per_second = 0\nsource = "its maker"\n\n[m', "box.toml:13: error: compute.f8_operations_per_second is 0"),
    "a network of nothing": ("[memory]", '[network]\nbytes_per_second = 1e9\nsource = "a"\n\n[memory]', "box.toml:15: error: [network] stands without [node]"),
    "rings of nothing": ("[memory]", '[torus]\nring = 4\nsource = "a"\n\n[memory]', "box.toml:15: error: torus.dimensions is missing"),
    "half a dimension": ("[memory]", '[torus]\ndimensions = 2.5\nsource = "a"\n\n[memory]', "box.toml:16: error: torus.dimensions is 2.5"),
    "a part of a device": ("[memory]", '[node]\ndevices = 0.5\nsource = "a"\n\n[memory]', "box.toml:16: error: node.devices is 0.5"),
    "no number": ("1e10", "nan", "box.toml:4: error: link.bytes_per_second is nan"),
    "beyond floats": ("2000000000000", "9" * 400, "box.toml:12: error: compute.bf16_operations_per_second is beyond"),
    "in hexadecimal": ("2000000000000", "0x" + "f" * 9000, "box.toml:12: error: compute.bf16_operations_per_second is"),
    "thousands of digits": ("2000000000000", "9" * 9000, "box.toml: error: the data sheet of a hardware is not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_with_its_line(name: str) -> None:
    old, new, message = BAD[name]
    assert old in GOOD
    said, remedy = refused(GOOD.replace(old, new, 1))
    assert said.startswith(message)
    assert remedy


@pytest.mark.parametrize(
    ("old", "new", "remedy"),
    [
        ("[memory]", "[memroy]", "write memory"),
        ("seconds = 5e-6", "second = 5e-6", "write seconds"),
        ("5e-6", '"5e-6"', "write it as seconds = 1e-6"),
        ("seconds = 5e-6\n", "", "write seconds = 1e-6"),
    ],
)
def test_what_to_write_is_told(old: str, new: str, remedy: str) -> None:
    assert refused(GOOD.replace(old, new))[1] == remedy


def test_other_ways_to_write_a_table_have_their_lines_too() -> None:
    rest = GOOD[GOOD.index("\n[start]") :]
    assert refused(f'name = "a"\nlink.source = "b"\nlink.bytes_per_second = 0\n{rest}')[0].startswith("box.toml:3: ")
    assert refused(f'name = "a"\nlink = {{bytes_per_second = 0, source = "b"}}\n{rest}')[0].startswith("box.toml:2: ")


def test_nesting_without_end_is_refused() -> None:
    assert "not TOML" in refused("name = " + "[" * 100_000)[0]


def test_work_may_cost_nothing_where_that_is_said() -> None:
    assert parse_sheet(sheet_of("bytes").text(), "bytes").hardware.seconds(multiply_adds=1e30) == 0
