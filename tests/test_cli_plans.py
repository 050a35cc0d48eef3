"""`shardwright plan`, `shardwright diff`, and `--plan` of every command that takes shardings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shardwright.cli import cli
from shardwright.plans.load import load_saved

STEP = """\
func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x256xf32>) -> tensor<16x256xf32> {
  %y = stablehlo.dot %x, %w : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}
"""
GIVEN = ("--mesh", "data=2,model=4", "--arg", "x=data,-", "--arg", "w=-,model")
COMMANDS = ("run", "propagate", "partition", "verify", "explain", "analyze", "tune", "plan")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program, the same with an argument renamed, and the plan of the first."""
    (tmp_path / "step.mlir").write_text(STEP)
    (tmp_path / "renamed.mlir").write_text(STEP.replace("%w", "%weight"))
    monkeypatch.chdir(tmp_path)
    assert shardwright("plan", "step.mlir", *GIVEN, "-o", "plan.toml").exit_code == 0
    return tmp_path


def shardwright(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def good(*args: str) -> str:
    done = shardwright(*args)
    assert done.exit_code == 0, done.output
    return done.stdout


def refused(*args: str) -> str:
    done = shardwright(*args)
    assert done.exit_code == 1, done.output
    return done.output


def test_a_plan_goes_to_standard_output_or_to_a_file(folder: Path) -> None:
    text = good("plan", "step.mlir", *GIVEN)
    assert text == (folder / "plan.toml").read_text()
    told = json.loads(good("plan", "step.mlir", *GIVEN, "-o", "other.toml", "--json"))
    assert told["written"] == {"plan": "other.toml"}
    assert (folder / "other.toml").read_text() == text
    assert "collectives" in json.loads(good("plan", "step.mlir", *GIVEN, "--json"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_it(folder: Path, command: str) -> None:
    value = ("w",) if command == "explain" else ()
    by_plan = good(command, "step.mlir", *value, "--plan", "plan.toml", "--json")
    said = good(command, "step.mlir", *value, *GIVEN, "--json")
    assert without_times(json.loads(by_plan)) == without_times(json.loads(said))


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(one) for name, one in value.items() if "seconds" not in name}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def test_what_it_writes_is_what_the_plan_wrote(folder: Path) -> None:
    assert good("partition", "step.mlir", "--plan", "plan.toml") == good("partition", "step.mlir", *GIVEN)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_does_not_fit_is_refused_where_that_is_asked_for(folder: Path, command: str) -> None:
    value = ("weight",) if command == "explain" else ()
    good(command, "renamed.mlir", *value, "--plan", "plan.toml", "--json")
    output = refused(command, "renamed.mlir", *value, "--plan", "plan.toml", "--strict-plan")
    assert output.startswith("plan.toml:25: error: the plan does not fit the program: 1 entry of 3")
    assert "if it is called 'weight' now, write that in the plan" in output


def test_what_does_not_fit_is_a_note(folder: Path) -> None:
    notes = json.loads(good("partition", "renamed.mlir", "--plan", "plan.toml", "--json"))["notes"]
    assert [note["message"] for note in notes] == [
        "the plan does not fit: the program has no such argument; it has 'x', 'weight'",
        "the plan says nothing of 'weight', which propagation completes",
    ]
    assert "the plan does not fit the program" in refused(
        "partition", "renamed.mlir", "--plan", "plan.toml", "--strict"
    )


def test_options_win_over_the_plan(folder: Path) -> None:
    good("plan", "step.mlir", *GIVEN, "--effort", "default", "--hardware", "h100", "-o", "h100.toml")
    saved = load_saved("h100.toml").partitioning
    assert saved is not None
    assert (saved.effort, saved.hardware) == ("default", "h100")
    taken = good("plan", "step.mlir", "--plan", "h100.toml")
    assert taken == Path("h100.toml").read_text()
    other = good("plan", "step.mlir", "--plan", "h100.toml", "--effort", "fast", "--hardware", "a100", "--arg", "w=.,.")
    parts = ('effort = "fast"', 'hardware = "a100"', 'w = {type = "64x256xf32", sharding = ".,."}')
    assert all(part in other for part in parts)


def test_hardware_that_has_no_name_is_asked_for(folder: Path) -> None:
    sheet = good("hardware", "h100").replace("NVIDIA H100 SXM", "our box")
    assert "bytes_per_second = 4.5e11" in sheet
    Path("box.toml").write_text(sheet.replace("bytes_per_second = 4.5e11", "bytes_per_second = 4e11"))
    good("plan", "step.mlir", *GIVEN, "--hardware", "box.toml", "-o", "box_plan.toml")
    output = refused("plan", "step.mlir", "--plan", "box_plan.toml")
    assert output.startswith("box_plan.toml: error: there is no hardware called 'our box'")
    assert "--hardware NAME" in output
    good("plan", "step.mlir", "--plan", "box_plan.toml", "--hardware", "box.toml")


def test_too_many_devices_are_refused_before_anything_is_done(folder: Path) -> None:
    assert "the mesh has 8 devices, 4 were asked for" in refused(
        "run", "step.mlir", "--plan", "plan.toml", "--devices", "4"
    )


def test_strict_plan_wants_a_plan(folder: Path) -> None:
    done = shardwright("partition", "step.mlir", *GIVEN, "--strict-plan")
    assert (done.exit_code, "No such option without --plan" in done.output) == (2, True)


def test_standard_input_is_no_plan(folder: Path) -> None:
    done = shardwright("partition", "step.mlir", "--plan", "-")
    assert (done.exit_code, "--plan takes a file" in done.output) == (2, True)


def test_plans_that_say_the_same_differ_in_nothing(folder: Path) -> None:
    assert good("diff", "plan.toml", "plan.toml") == "The plans say the same of 2 arguments.\n"


def test_what_differs_is_told_and_is_the_status(folder: Path) -> None:
    good("plan", "step.mlir", "--plan", "plan.toml", "--arg", "w=model,.", "--effort", "fast", "-o", "other.toml")
    output = refused("diff", "plan.toml", "other.toml")
    assert output.splitlines()[:3] == [
        "Arguments: 1 of 2 in both lie otherwise",
        "         lies   will lie      holds   will hold",
        "  w   .,model    model,.   16.0 KiB    16.0 KiB",
    ]
    assert "  effort   default → fast" in output
    told = json.loads(refused("diff", "plan.toml", "other.toml", "--json"))
    assert told["arguments"] == [
        {"name": "w", "before": ".,model", "after": "model,.", "bytes_before": 16384, "bytes_after": 16384}
    ]
    assert {change["name"] for change in told["outcome"]} >= {"seconds", "bytes_sent"}


def test_a_plan_of_another_program_is_told_argument_by_argument(folder: Path) -> None:
    good("plan", "renamed.mlir", "--plan", "plan.toml", "-o", "renamed.toml")
    output = refused("diff", "plan.toml", "renamed.toml")
    assert "Arguments of the first alone: 1\n  w   .,model" in output
    assert "Arguments of the second alone: 1\n  weight   .,model" in output


@pytest.mark.parametrize("args", [("none.toml", "plan.toml"), ("plan.toml", "step.mlir")])
def test_what_is_no_plan_is_diagnosed(folder: Path, args: tuple[str, str]) -> None:
    assert ": error: " in refused("diff", *args)
    assert "error: the plan is not TOML" in refused("run", "step.mlir", "--plan", "step.mlir")


TORCH = """\
func.func @main(%x: tensor<16x64xf32>, %up.weight: tensor<256x64xf32>) -> tensor<16x256xf32> {
  %y = stablehlo.dot_general %x, %up.weight, contracting_dims = [1] x [1]
      : (tensor<16x64xf32>, tensor<256x64xf32>) -> tensor<16x256xf32>
  return %y : tensor<16x256xf32>
}
"""


@pytest.mark.parametrize("format", ["dtensor", "maxtext", "torchtitan", "tp_plan"])
def test_it_is_written_in_other_formats_and_taken_in_them(folder: Path, format: str) -> None:
    Path("torch.mlir").write_text(TORCH)
    given = ("--mesh", "tp=4", "--arg", "up.weight=tp,.")
    good("plan", "torch.mlir", *given, "--to", format, "-o", "other.json")
    mesh = () if format in ("dtensor", "maxtext") else ("--mesh", "tp=4")
    taken = good("plan", "torch.mlir", "--plan", "other.json", *mesh, "--to", "dtensor")
    assert json.loads(taken)["arguments"]["up.weight"]["text"] == "[Shard(0)]"


def test_what_a_format_leaves_out_is_told_or_refused(folder: Path) -> None:
    done = shardwright("plan", "step.mlir", *GIVEN, "--to", "tp_plan")
    assert (done.exit_code, done.stdout) == (0, "{}\n")
    assert (
        "note: left out: w: a tp_plan splits weights of linear layers and their biases; leave it whole" in done.stderr
    )
    output = refused("plan", "step.mlir", *GIVEN, "--to", "tp_plan", "--strict")
    assert "error: tp_plan cannot say all of the plan: 2 entries would be left out" in output


def test_plans_of_other_frameworks_are_known_by_their_values(folder: Path) -> None:
    for text, message in (
        ("{", "other.json:1:2: error: the plan begins as JSON and is none"),
        ("{}", "other.json: error: not a plan in any format"),
        ('{"a": 5}', "other.json: error: not a plan in any format"),
        ('{"up": "columns"}', "other.json: error: unknown style 'columns' of 'up'"),
    ):
        Path("other.json").write_text(text)
        assert refused("propagate", "step.mlir", "--mesh", "tp=4", "--plan", "other.json").startswith(message)
    Path("other.json").write_text('{"up": "colwise"}')
    assert refused("propagate", "step.mlir", "--plan", "other.json").startswith(
        "other.json: error: the mesh is not known"
    )
    assert "the plan is a tp_plan, which says nothing without a program" in refused("diff", "other.json", "plan.toml")
