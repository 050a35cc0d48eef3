"""`--strategy` and `--conservative` of every command that shards, and what `rfc` says of hints that it drops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import shardwright as sw
from shardwright.cli import cli
from shardwright.propagation import STRATEGIES, STRATEGY_WORDS

_TEXT = """\
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x", ?}, {?}]> : tensor<8x8xf32>
  %1 = sdy.sharding_constraint %b <@mesh, [{"y", ?}, {?}]> : tensor<8x8xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}
"""
_DROPPED = (
    "the hint for operand 1 of stablehlo.add [{y}, {}] is dropped: "
    "it contradicts operand 0 of stablehlo.add [{x}, {}] at step.mlir:3"
)
_COMMANDS = ("run", "propagate", "partition", "verify", "explain")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program whose two hints contradict each other."""
    (tmp_path / "step.mlir").write_text(_TEXT)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shardwright(command: str, *args: str) -> Result:
    value = ("b",) if command == "explain" else ()
    return CliRunner().invoke(cli, [command, "step.mlir", *value, *args])


@pytest.mark.parametrize("command", _COMMANDS)
@pytest.mark.parametrize("strategy", STRATEGY_WORDS)
def test_every_command_takes_every_strategy(folder: Path, command: str, strategy: str) -> None:
    done = shardwright(command, "--strategy", strategy)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_strategy_that_is_not_there_is_refused_with_those_that_are(folder: Path, command: str) -> None:
    done = shardwright(command, "--strategy", "best")
    assert done.exit_code == 2
    assert all(f"'{name}'" in done.stderr for name in STRATEGY_WORDS)


@pytest.mark.parametrize("command", _COMMANDS)
def test_what_a_strategy_cannot_do_is_diagnosed(folder: Path, command: str) -> None:
    done = shardwright(command, "--strategy", "rfc", "--conservative")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: the strategy 'rfc' cannot be conservative\n  why:    ")
    assert not (folder / "step.stages").exists()


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_help_says_what_each_strategy_is(folder: Path, command: str) -> None:
    text = " ".join(CliRunner().invoke(cli, [command, "--help"], terminal_width=200).output.split())
    assert all(f"{name} {words}" in text for name, words in STRATEGY_WORDS.items())


def test_each_strategy_is_described_and_no_other() -> None:
    assert set(STRATEGY_WORDS) == {*STRATEGIES, "rfc"}


# Where strategies differ


def _sharding(*args: str) -> str:
    [value] = json.loads(shardwright("explain", "--json", *args).output)["values"]
    return str(value["sharding"])


def test_the_strategy_is_what_decides(folder: Path) -> None:
    assert (_sharding(), _sharding("--strategy", "rfc")) == ("[{y}, {}]", "[{x}, {}]")


def test_conservative_lets_no_part_of_an_axis_flow(folder: Path) -> None:
    part = '%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)2}, {}]>}'
    without_hints = [line for line in _TEXT.splitlines() if "constraint" not in line]
    text = "\n".join(without_hints).replace("%0, %1", "%a, %b").replace("%a: tensor<8x8xf32>", part)
    (folder / "step.mlir").write_text(text)
    result = shardwright("explain", "--conservative")
    assert "only whole axes flow" in result.output
    assert "only whole axes flow" not in shardwright("explain").output


def test_a_plan_explains_its_own_propagation_and_prints_as_the_command_does(folder: Path) -> None:
    plan = sw.load("step.mlir").plan("rfc")
    assert (plan.strategy, plan.conservative) == ("rfc", False)
    assert f"{plan.explain('b')}\n" == shardwright("explain", "--strategy", "rfc").output
    [explanation] = plan.explain("b")
    assert explanation.sharding == plan.shardings["b"]


# Hints that are dropped


@pytest.mark.parametrize("command", ["run", "propagate", "partition"])
def test_dropped_hints_are_notes_of_the_summary(folder: Path, command: str) -> None:
    output = ("-o", "out")
    done = shardwright(command, "--strategy", "rfc", *output)
    assert f"step.mlir:4: sdy.sharding_constraint: {_DROPPED}" in done.output
    assert "is dropped" not in shardwright(command, *output).output


@pytest.mark.parametrize("command", ["run", "propagate", "partition"])
def test_dropped_hints_are_in_the_json(folder: Path, command: str) -> None:
    summary = json.loads(shardwright(command, "--strategy", "rfc", "--json").output)
    note = {
        "op": "sdy.sharding_constraint",
        "location": "step.mlir:4",
        "message": _DROPPED,
        "bytes": 0,
        "measure": "sent",
        "work": 0,
        "remedy": "leave it out, or change the hints that it loses to",
        "is_fallback": True,
    }
    assert note in summary["notes"]


def test_dropped_hints_are_told_of_the_value(folder: Path) -> None:
    assert f"  step.mlir:4: {_DROPPED}" in shardwright("explain", "--strategy", "rfc").output.splitlines()
    [value] = json.loads(shardwright("explain", "--strategy", "rfc", "--json").output)["values"]
    assert value["dropped"] == [f"step.mlir:4: {_DROPPED}"]
    assert json.loads(shardwright("explain", "--json").output)["values"][0]["dropped"] == []


# Programs that are not propagated


def test_a_program_for_one_device_takes_no_strategy(folder: Path) -> None:
    (folder / "step.mlir").write_text("""\
shard.grid @g(shape = 2)
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
""")
    assert shardwright("partition").exit_code == 0
    done = shardwright("partition", "--strategy", "rfc", "--conservative")
    assert done.exit_code == 1
    assert "leave out --strategy and --conservative" in done.stderr
    assert "leave out --mesh" in shardwright("partition", "--mesh", "x=2").stderr
    assert "leave out --arguments" in shardwright("partition", "--arguments", "whole").stderr
