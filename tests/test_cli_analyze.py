"""`shardwright analyze`: what people read of a program, and that machines get the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli
from shardwright.report.assessment import curve
from shardwright.report.text import summary_page

EXAMPLES = Path(__file__).parent.parent / "examples"
TWICE = """\
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
"""


def analyzed(*args: str | Path, stdin: str | None = None) -> str:
    result = CliRunner().invoke(cli, ["analyze", *map(str, args)], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_a_training_step_comes_to_is_told_in_parts() -> None:
    text = analyzed(EXAMPLES / "gpt2.mlir", "--effort", "fast")
    headings = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert [line.split(":")[0].split(" on ")[0] for line in headings[2:]] == [
        "Collectives",
        "Memory per device",
        "At the peak",
        "Work",
        "Along the axes",
        "For the lines",
        "Time of a run by the price",
    ]
    assert "7.23% more than needed" in text
    assert "Notes" not in text


def test_a_program_that_computes_twice_is_caught() -> None:
    text = analyzed("-", stdin=TWICE)
    assert "100.00% more than needed:" in text
    (row,) = [line.split() for line in text.splitlines() if line.startswith("  stablehlo.tanh") and "-:3" in line][-1:]
    assert row == ["stablehlo.tanh", "2", "1", "64", "-:3"]
    assert "no op is computed more than once" in analyzed("-", stdin=TWICE.replace("{}]", '{"y"}]'))


def test_machines_get_what_the_library_tells() -> None:
    told = json.loads(analyzed(EXAMPLES / "decode.mlir", "--json"))
    found = sw.load(EXAMPLES / "decode.mlir").plan().partition().assessment
    assert told["held"]["over"] == list(found.over)
    assert sum(one["bytes"] for one in told["held"]["at_peak"]) == told["memory"]["peak"]
    assert (told["work"]["needed"], told["work"]["done"]) == (found.needed, found.done)
    assert sum(row["wasted"] for row in told["work"]["redundant"]) == pytest.approx(found.done - found.needed)
    assert sum(row["ops"] for row in told["work"]["redundant"]) == len(found.redundant)
    assert list(told["traffic"]["by_axes"]) == ["+".join(axes) for axes in found.by_axes]
    assert told["modelled"]["overlapped"] == found.times.overlapped
    assert told["modelled"]["hardware"] == "TPU v5p"


def test_hardware_and_effort_are_taken() -> None:
    told = json.loads(analyzed("-", "--hardware", "h100", "--effort", "default", "--json", stdin=TWICE))
    assert told["modelled"]["hardware"] == told["hardware"]["name"] == "NVIDIA H100 SXM"
    assert told["search"]["gap"] == pytest.approx(0.0, abs=1e-9)


def test_a_program_of_one_device_is_read_too(tmp_path: Path) -> None:
    local = tmp_path / "local.mlir"
    local.write_text(sw.load(EXAMPLES / "mlp.mlir").plan().partition().module("local"))
    assert "a program of one device does not say what would be needed" in analyzed(local)
    assert json.loads(analyzed(local, "--json"))["work"] is None


def test_what_does_not_fit_a_terminal_is_narrower_and_nothing_held_is_not_drawn() -> None:
    told = json.loads(analyzed(EXAMPLES / "gpt2.mlir", "--json"))
    (line,) = [line for line in str(summary_page(told, 60)).splitlines() if "from the first op" in line]
    assert len(line) <= 60
    assert line.endswith("|")
    empty = analyzed("-", "--mesh", "x=2", stdin="func.func @main() { return }")
    assert "At the peak" not in empty
    assert "||" not in empty


def test_a_curve_shows_the_greatest_of_each_stretch() -> None:
    assert curve([]) == curve([0, 0]) == ""
    assert curve([0, 8] * 100, columns=4) == "████"
    assert len(curve(list(range(1000)))) == 64
