"""What communication is to be cheap on: `--hardware`, and the command that lists what there is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import shardwright as sw
from shardwright.cli import cli
from shardwright.cost.hardware import preset_names, sheet_of

DECIDING = ("run", "partition", "verify")
MATMUL = """\
func.func @main(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
"""
SHARDED = ("matmul.mlir", "--mesh", "x=4,y=2", "--arg", "x=-,x", "--arg", "w=x,-")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "matmul.mlir").write_text(MATMUL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shardwright(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def good(*args: str) -> str:
    result = shardwright(*args)
    assert result.exit_code == 0, result.output
    return result.stdout


def kinds(*options: str) -> dict[str, float]:
    """Bytes sent by each kind of collective."""
    found = json.loads(good("partition", *SHARDED, *options, "--json"))["collectives"]["kinds"]
    return {kind: use["executed_bytes"] for kind, use in found.items()}


def test_hardware_decides() -> None:
    """By bytes, idle devices share the reduction; where a start is worth megabytes, one all_reduce does it."""
    assert kinds("--hardware", "bytes") == {"all_reduce": 12288, "all_gather": 8192}
    assert kinds("--hardware", "h100") == {"all_reduce": 24576}
    assert kinds("--hardware", "tpu_v5p") == kinds()


def test_what_the_readme_tells_of_two_machines(folder: Path) -> None:
    (folder / "matmul.mlir").write_text(MATMUL.replace("64", "512"))
    assert kinds("--hardware", "h100") == {"all_reduce": 1_572_864}
    assert sum(kinds().values()) == 1_310_720
    assert len(kinds()) == 2
    h100, v5p = sw.hardware("h100"), sw.hardware("tpu_v5p")
    assert h100.start_seconds * h100.bytes_per_second == pytest.approx(2.97e6)
    assert v5p.start_seconds * v5p.bytes_per_second == pytest.approx(9e4)


@pytest.mark.parametrize("name", ["bytes", "h100"])
def test_whatever_is_chosen_the_results_are_equal(name: str) -> None:
    text = good("verify", *SHARDED, "--hardware", name)
    assert "Results: equal to the unsharded program" in text
    assert f"decided for {sw.hardware(name).name}\n" in text


def test_from_python_a_session_decides() -> None:
    sent = {}
    for name in ("bytes", "h100"):
        with sw.Session(hardware=sw.hardware(name)):
            spmd = sw.load("matmul.mlir").shard("x=4,y=2", {"x": "-,x", "w": "x,-"}).partition()
        assert spmd.hardware == sw.hardware(name)
        assert spmd.plan.partition().hardware is None
        sent[name] = spmd.traffic.total.executed_bytes
    assert sent == {"bytes": 20480, "h100": 24576}


def test_a_file_of_ones_own_is_a_hardware(folder: Path) -> None:
    text = good("hardware", "h100")
    (folder / "mine.toml").write_text(text.replace("NVIDIA H100 SXM", "slow links").replace("4.5e11", "1e3"))
    assert kinds("--hardware", "mine.toml") == kinds("--hardware", "bytes")
    assert "decided for slow links\n" in good("partition", *SHARDED, "--hardware", "mine.toml", "-o", "local.mlir")


def test_a_stage_is_written_as_decided() -> None:
    local = good("partition", *SHARDED, "--hardware", "bytes")
    assert "stablehlo.all_gather" in local
    assert "stablehlo.all_gather" not in good("partition", *SHARDED, "--hardware", "h100")


def test_whether_it_fits_is_told_where_a_hardware_was_given(folder: Path) -> None:
    (folder / "small.toml").write_text(sheet_of("h100").text().replace("8e10", "2e4"))
    (folder / "unknown.toml").write_text(sheet_of("h100").text().partition("[memory]")[0])
    said = {
        "h100": (True, "  what is allocated fits into the 74.5 GiB of NVIDIA H100 SXM\n"),
        "small.toml": (False, "  what is allocated does NOT fit into the 19.5 KiB of NVIDIA H100 SXM\n"),
        "unknown.toml": (None, "Memory per device"),
        "bytes": (None, "Memory per device"),
    }
    for name, (fits, line) in said.items():
        assert line in good("partition", *SHARDED, "--hardware", name, "-o", "local.mlir")
        summary = json.loads(good("partition", *SHARDED, "--hardware", name, "--json"))
        assert summary["memory"].get("fits") is fits
        assert summary["hardware"]["name"] == sw.hardware(name).name
    unasked = json.loads(good("partition", *SHARDED, "--json"))
    assert "hardware" not in unasked
    assert "fits" not in unasked["memory"]


@pytest.mark.parametrize("command", DECIDING)
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("h10", "error: there is no hardware called 'h10'\n  why:    the nearest are h100, "),
        ("", "error: there is no hardware called ''\n  why:    there are a100, "),
        ("no.toml", "no.toml: error: cannot read 'no.toml'\n  why:    No such file"),
        ("bad.toml", "bad.toml:8: error: start.seconds is 0\n  why:    a figure is a positive number"),
        ("torn.toml", "torn.toml:1: error: the data sheet of a hardware is not TOML\n  why:    "),
        ("./", "./: error: cannot read './'"),
    ],
)
def test_a_bad_hardware_is_diagnosed_and_nothing_written(folder: Path, command: str, given: str, said: str) -> None:
    (folder / "bad.toml").write_text(sheet_of("h100").text().replace("6.6e-6", "0"))
    (folder / "torn.toml").write_text("name = ")
    before = sorted(os.listdir(folder))
    result = shardwright(command, *SHARDED, "--hardware", given, *([] if command == "verify" else ["-o", "out"]))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said)
    assert "\n  change: " in result.stderr
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("command", ["propagate", "explain"])
def test_what_decides_nothing_by_price_takes_no_hardware(command: str) -> None:
    value = ["y"] if command == "explain" else []
    result = shardwright(command, *SHARDED[:1], *value, *SHARDED[1:], "--hardware", "h100")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


@pytest.mark.parametrize("command", ["propagate", "explain"])
def test_propagation_by_cost_does(command: str) -> None:
    value = ["result0"] if command == "explain" else []
    given = ["--strategy", "cost", "--hardware", "h100"]
    assert good(command, *SHARDED[:1], *value, *SHARDED[1:], *given)


def test_a_program_of_one_device_is_decided_already(folder: Path) -> None:
    (folder / "local.mlir").write_text(good("partition", *SHARDED))
    result = shardwright("run", "local.mlir", "--hardware", "h100")
    assert result.exit_code == 1
    assert "leave out --hardware" in result.stderr


def test_the_list_names_every_preset_in_a_table() -> None:
    head, *rows, empty, note = good("hardware").splitlines()
    assert [row.split()[0] for row in rows] == list(preset_names())
    [row] = [row for row in rows if row.split()[0] == "h100"]
    assert len({len(line) for line in (head, rows[0], row)}) == 1
    assert " ".join(row.split()) == "h100 NVIDIA H100 SXM 450 GB/s 6.6 µs 990 Tflop/s 80 GB 3.35 TB/s 8: 50 GB/s"
    assert (empty, note.split()[0]) == ("", "tpu_v5p")


@pytest.mark.parametrize("name", preset_names())
def test_one_is_shown_with_its_sources_as_a_file_that_is_read_again(folder: Path, name: str) -> None:
    text = good("hardware", name)
    assert text.count("source = ") == len(sheet_of(name).figures)
    (folder / "again.toml").write_text(text)
    assert good("hardware", "again.toml") == text
    assert sw.hardware("again.toml") == sw.hardware(name)


def test_json_of_all_and_of_one() -> None:
    every = json.loads(good("hardware", "--json"))
    one = json.loads(good("hardware", "h100", "--json"))["hardware"]
    assert (every["default"], list(every["hardware"])) == ("tpu_v5p", list(preset_names()))
    assert every["hardware"]["h100"] == one
    assert (one["name"], one["link"]["bytes_per_second"], one["memory"]["bytes"]) == ("NVIDIA H100 SXM", 4.5e11, 8e10)
    assert all(one[table]["source"] for table in ("link", "start", "compute", "memory"))
    assert every["hardware"]["bytes"]["compute"]["bf16_operations_per_second"] is None


@pytest.mark.parametrize("given", ["h10", "no.toml"])
def test_one_that_is_not_there_is_not_shown(given: str) -> None:
    result = shardwright("hardware", given)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "\n  change: " in result.stderr


@pytest.mark.parametrize("command", [*DECIDING, "hardware"])
def test_help_has_an_example(command: str) -> None:
    text = good(command, "--help")
    assert "hardware h100" in text or "hardware mine.toml" in text
