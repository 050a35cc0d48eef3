"""What computing takes by the roofline, with the arithmetic shown."""

from __future__ import annotations

import math

import pytest

from shardwright.cost.hardware import BYTES, Hardware, hardware, preset_names
from shardwright.cost.roofline import operations_per_second, roofline_seconds

PLAIN = Hardware("a box", 1e9, 1e-6, multiply_adds_per_second=50.0)
"""100 operations a second in bf16, and no more is said."""

FULL = Hardware(
    "a big box", 1e9, 1e-6, 50.0, memory_bytes_per_second=20.0, peaks=(("f64", 1.0), ("f32", 8.0), ("i8", 400.0))
)


def test_a_product_takes_its_operations_or_its_traffic() -> None:
    # (64, 32) · (32, 16) in bf16: 2 · 64 · 32 · 16 = 65,536 operations, (64·32 + 32·16 + 64·16) · 2 = 7,168 bytes
    operations, bytes_moved = 2 * 64 * 32 * 16, 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert (operations, bytes_moved) == (65_536, 7_168)
    assert roofline_seconds(FULL, operations=operations, bytes_moved=bytes_moved) == 65_536 / 100  # 7168 / 20 is less
    assert roofline_seconds(FULL, operations=operations, bytes_moved=10 * bytes_moved) == 71_680 / 20
    assert roofline_seconds(FULL, operations=operations, bytes_moved=bytes_moved, dtype="f32") == 65_536 / 8


def test_without_a_word_on_memory_traffic_takes_no_time() -> None:
    assert roofline_seconds(PLAIN, operations=200, bytes_moved=1e30) == 2
    assert roofline_seconds(BYTES, operations=1e30, bytes_moved=1e30) == 0


@pytest.mark.parametrize(
    ("dtype", "plain", "full"),
    [
        ("bf16", 100, 100),
        ("f16", 100, 100),
        ("i16", 100, 100),
        ("f8E4M3FN", 100, 100),
        ("f8e5m2", 100, 100),
        ("f4E2M1FN", 100, 100),
        ("i8", 100, 400),
        ("s8", 100, 400),
        ("ui4", 100, 400),
        ("pred", 100, 400),
        ("i1", 100, 400),
        ("f32", 50, 8),
        ("tf32", 50, 8),
        ("i32", 50, 8),
        ("u32", 50, 8),
        ("complex<f32>", 50, 8),
        ("c64", 50, 8),
        ("f64", 25, 1),
        ("i64", 25, 1),
        ("c128", 25, 1),
    ],
)
def test_types_whose_peak_is_not_said_go_by_those_that_are(dtype: str, plain: float, full: float) -> None:
    assert operations_per_second(PLAIN, dtype) == plain
    assert operations_per_second(FULL, dtype) == full


@pytest.mark.parametrize("name", preset_names())
def test_on_all_hardware_narrower_types_are_no_slower(name: str) -> None:
    order = ["f64", "f32", "tf32", "bf16", "f8"]
    speeds = [operations_per_second(hardware(name), dtype) for dtype in order]
    assert speeds == sorted(speeds)
    assert operations_per_second(hardware(name), "i8") >= speeds[3]
    assert speeds[3] == 2 * hardware(name).multiply_adds_per_second


def test_the_big_ones_read_their_memory_in_a_twentieth_of_a_second() -> None:
    for name in preset_names():
        if (box := hardware(name)).memory_bytes is not None:
            seconds = box.memory_bytes / (box.memory_bytes_per_second or math.nan)
            assert 0.01 < seconds < 0.05, name
