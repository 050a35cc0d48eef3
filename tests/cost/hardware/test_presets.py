"""The hardware that comes along: what each data sheet says, and what is said of those that are not there."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import shardwright as sw
from shardwright.cost.hardware import BYTES, DEFAULT, TPU_V5P, Hardware, Links, current_hardware, preset_names, sheet_of
from shardwright.cost.hardware.read import parse_sheet
from shardwright.cost.hardware.shipped import DATA, shipped


def test_the_default_and_the_count_of_bytes_are_what_they_were() -> None:
    there = Hardware("TPU v5p", 9e10, 1e-6, 4.59e14 / 2)
    alone = replace(TPU_V5P.with_a_link(), node_devices=None, network_bytes_per_second=None)
    assert replace(alone, memory_bytes=None, memory_bytes_per_second=None, peaks=()) == there
    assert Hardware("bytes", 1.0, 2.0**-10, math.inf) == BYTES
    assert sw.hardware(DEFAULT) == TPU_V5P


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_has_positive_figures_and_their_sources(name: str) -> None:
    sheet = sheet_of(name)
    assert {"link", "start", "compute"} <= set(sheet.figures)
    for figure in sheet.figures.values():
        assert figure.value > 0
        assert len(figure.source) > 10
    hardware = sw.hardware(name)
    assert hardware.memory_bytes is None or hardware.memory_bytes > 1e9
    assert math.isfinite(hardware.multiply_adds_per_second) == (name != "bytes")
    assert hardware.seconds(bytes_sent=hardware.bytes_per_second) == 1


@pytest.mark.parametrize("name", preset_names())
def test_a_data_sheet_is_written_as_it_is_read(name: str) -> None:
    sheet, file = sheet_of(name), DATA / f"{name}.toml"
    assert sheet.text() == file.read_text()
    assert parse_sheet(sheet.text(), "again") == sheet


@pytest.mark.parametrize("name", preset_names())
def test_what_is_taken_from_a_data_sheet_unchecked_is_what_checking_it_gives(name: str) -> None:
    assert shipped(name) == sheet_of(name).hardware


def test_peaks_are_operations_and_decisions_count_multiply_adds() -> None:
    assert sw.hardware("h100").multiply_adds_per_second == sheet_of("h100").figures["compute"].value / 2


@pytest.mark.parametrize("name", ["h100", "H100", " h100 ", "TPU v5p", "tpu-v5p", "MI300X"])
def test_names_are_found_however_they_are_written(name: str) -> None:
    assert sw.hardware(name).name.split()[0] in ("NVIDIA", "TPU", "AMD")


@pytest.mark.parametrize(
    ("name", "near"), [("h10", "h100"), ("v5p", "tpu_v5p"), ("tpu_v5", "tpu_v5e"), ("mi300", "mi300x"), ("zzz", "a100")]
)
def test_of_a_name_that_is_not_there_the_nearest_are_told(name: str, near: str) -> None:
    with pytest.raises(sw.ShardingError, match=f"no hardware called '{name}'") as caught:
        sw.hardware(name)
    assert near in caught.value.diagnostic.cause
    assert "shardwright hardware" in caught.value.diagnostic.remedy


@pytest.mark.parametrize("given", [5, None, 4.5e11, b"h100", ["h100"], TPU_V5P])
def test_what_is_neither_name_nor_path_is_refused(given: object) -> None:
    with pytest.raises(sw.ShardingError, match="not a hardware"):
        sw.hardware(given)  # type: ignore[arg-type]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(sheet_of("h100").text().replace("4.5e11", "3.7e11").replace("NVIDIA H100 SXM", "our box"))
    for given in (file, str(file)):
        assert sw.hardware(given).bytes_per_second == 3.7e11
        with sw.Session(hardware=sw.hardware(given)):
            assert current_hardware().name == "our box"
    file.write_text("")
    with pytest.raises(sw.ShardingError, match="name is missing"):  # read anew, not remembered
        sw.hardware(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read"), (b"name = '\xff'", "not TOML\n  why:    byte 8 is not UTF-8"), (b"\0", "not TOML")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(sw.ShardingError) as caught:
        sw.hardware(file)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)
    assert "TOML file" in caught.value.diagnostic.remedy or "prints one" in caught.value.diagnostic.remedy


def test_gpus_stand_in_nodes_and_tpus_in_pods_with_a_network_between_them() -> None:
    nodes = {name: sw.hardware(name).devices_near for name in ("h100", "mi300x", "gb200", "tpu_v5p", "bytes")}
    assert nodes == {"h100": 8, "mi300x": 8, "gb200": 72, "tpu_v5p": 8960, "bytes": None}
    assert sw.hardware("h100").network_bytes_per_second == 5e10


def test_tpus_are_tori_and_gpus_are_joined_by_switches() -> None:
    tori = {name: sw.hardware(name).links for name in preset_names() if sw.hardware(name).torus_dimensions}
    cubes = {"tpu_v4": Links(4096, 3, 4), "tpu_v5p": Links(8960, 3, 4), "tpu7x": Links(9216, 3, 4)}
    assert tori == cubes | {"tpu_v5e": Links(256, 2, 16), "tpu_v6e": Links(256, 2, 16)}
    assert sw.hardware("h100").links == Links(8)
    assert sw.hardware("cpu_8").links is None
    assert TPU_V5P.with_a_link().links == Links(8960)
