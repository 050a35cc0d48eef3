"""What measurements of devices come to as a data sheet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.cost.collectives import sent_bytes
from shardwright.cost.hardware import sheet_of
from shardwright.cost.hardware.read import parse_sheet
from shardwright.runtime import calibrate
from shardwright.runtime.calibrate import sheet_of_measured

START, SPEED = 2e-5, 3e9


def collective(kind: str, operand: float, devices: int = 8) -> dict[str, Any]:
    """What one took on the link that measurements of this file are of."""
    result = operand * devices if kind == "all_gather" else operand
    seconds = START + sent_bytes(kind, operand, result, devices) / SPEED
    return {"kind": kind, "operand": operand, "result": result, "devices": devices, "seconds": seconds}


def measured(**other: Any) -> dict[str, Any]:
    kinds = ("all_reduce", "all_gather", "all_to_all", "collective_permute")
    return {
        "jax": "0.10.2",
        "device": "cpu",
        "platform": "cpu",
        "devices": 8,
        "memory": None,
        "products": {
            "compute": {"side": 512, "operations": 2.0 * 512**3, "seconds": 0.01},
            "f32": {"side": 1024, "operations": 2.0 * 1024**3, "seconds": 0.1},
        },
        "parts": {"side": 512, "parts": 8, "whole": 0.01, "seconds": 0.0123},
        "copy": {"bytes": 2.0 * (1 << 26), "seconds": 0.05},
        "collectives": [collective(kind, 1 << power) for kind in kinds for power in range(8, 27, 3)],
        **other,
    }


def test_measurements_come_to_a_data_sheet() -> None:
    sheet = sheet_of_measured(measured())
    hardware = sheet.hardware
    assert hardware.name == "8 cpu devices"
    assert (hardware.start_seconds, hardware.bytes_per_second) == (START, SPEED)
    # 2 · 512³ operations in 0.01 s and 2 · 1024³ in 0.1 s; 2 · 2²⁶ bytes in 0.05 s; each to three digits
    assert hardware.multiply_adds_per_second == 2.68e10 / 2
    assert hardware.peaks == (("f32", 2.15e10),)
    assert (hardware.memory_bytes, hardware.memory_bytes_per_second) == (None, 2.68e9)
    assert hardware.lost_in_parts == 0.23
    assert hardware.copied_bytes_per_second == math.inf
    assert parse_sheet(sheet.text(), "again") == sheet


def test_gpus_lay_out_anew_at_half_the_speed_of_memory_and_no_parts_are_faster_than_the_whole() -> None:
    parts = {"side": 512, "parts": 8, "whole": 0.01, "seconds": 0.0099}
    hardware = sheet_of_measured(measured(platform="gpu", parts=parts)).hardware
    assert hardware.copied_bytes_per_second == 1.34e9
    assert hardware.lost_in_parts == 1e-3


def test_each_figure_says_how_it_was_measured() -> None:
    figures = sheet_of_measured(measured(memory=8e10), "our box").figures
    assert figures["link"].source == (
        "measured with jax 0.10.2 on 8 cpu devices: fitted to 28 collectives, off by 0% in the median"
    )
    assert figures["compute"].source.endswith("a product of 512×512 by 512×512 on each device, all at once")
    assert figures["memory"].source == "what jax 0.10.2 says of 8 cpu devices"
    assert "67,108,864 bytes on each device" in figures["memory_traffic"].source


def test_one_device_has_no_links_to_measure() -> None:
    with pytest.raises(sw.ShardingError, match="one device sends nothing") as caught:
        sheet_of_measured(measured(devices=1, collectives=[]))
    assert "--like" in caught.value.diagnostic.remedy


def test_one_device_takes_the_links_of_its_like() -> None:
    like = sheet_of("h200")
    sheet = sheet_of_measured(measured(devices=1, collectives=[]), "alone", like)
    assert sheet.hardware.name == "alone"
    assert sheet.hardware.multiply_adds_per_second == 2.68e10 / 2
    for name in ("link", "start", "node"):
        assert sheet.figures[name].value == like.figures[name].value
        assert sheet.figures[name].source == f"not measured, that of NVIDIA H200 SXM: {like.figures[name].source}"
    assert parse_sheet(sheet.text(), "again") == sheet


def test_links_that_can_be_measured_are_taken_from_nobody() -> None:
    assert sheet_of_measured(measured(), like=sheet_of("h200")) == sheet_of_measured(measured())


def test_times_of_no_link_are_refused() -> None:
    upside_down = [{**collective("all_reduce", 1 << power), "seconds": 1 / (1 << power)} for power in (8, 16, 24)]
    with pytest.raises(sw.ShardingError, match="no link is like this"):
        sheet_of_measured(measured(collectives=upside_down))


@pytest.mark.long
def test_virtual_devices_are_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["calibrate", "--devices", "2", "--name", "two", "-o", str(tmp_path / "two.toml")])
    assert result.exit_code == 0, result.output
    two = sw.hardware(tmp_path / "two.toml")
    assert two.name == "two"
    assert 1e-7 < two.start_seconds < 1e-2
    assert 1e7 < two.bytes_per_second < 1e12
    assert 1e8 < two.multiply_adds_per_second < 1e13
    assert dict(two.peaks)["f32"] > 1e8
    assert two.memory_bytes_per_second is not None
    assert 1e8 < two.memory_bytes_per_second < 1e12


def test_the_command_says_that_nothing_is_taken_from_another_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(cli, ["calibrate", "--devices", "2", "--like", "h200"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such option with --devices: --like" in result.stderr
    for count, noted in ((8, True), (1, False)):
        answer = measured(devices=count)
        monkeypatch.setattr(
            calibrate, "calibrated", lambda devices, *, name, like, answer=answer: sheet_of_measured(answer, name, like)
        )
        result = CliRunner().invoke(cli, ["calibrate", "--like", "h200"])
        assert result.exit_code == 0
        assert result.stderr.startswith("note: nothing is taken from --like") == noted
