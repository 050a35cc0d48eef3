"""`shardwright explain`: annotations, chains and stops, and names that say nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import shardwright as sw
from shardwright.cli import cli

TEXT = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(
    %x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
    %w: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> tensor<16x256xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x256xf32>) -> tensor<16x256xf32>
  %1 = stablehlo.tanh %0 : tensor<16x256xf32>
  return %1 : tensor<16x256xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "step.mlir").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    return "step.mlir"


def shardwright(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


@pytest.mark.parametrize("value", ["result0", "step.mlir:8", "%1"])
def test_both_axes_are_followed_to_their_arguments(file: str, value: str) -> None:
    done = shardwright("explain", file, value)
    assert done.exit_code == 0, done.output
    assert "data on dimension 0: from argument x" in done.output
    assert "model on dimension 1: from argument w" in done.output
    assert "stablehlo.dot_general" in done.output
    assert "step.mlir:6" in done.output


def test_json_has_the_same(file: str) -> None:
    done = shardwright("explain", file, "x", "--json")
    [value] = json.loads(done.output)["values"]
    assert value["sharding"] == "[{data}, {}]"
    assert [chain["annotation"]["where"] for chain in value["chains"]] == ["argument x"]


def test_an_unknown_value_is_refused_with_close_names(file: str) -> None:
    done = shardwright("explain", file, "result1")
    assert done.exit_code == 1
    assert "no value called 'result1'" in done.output
    assert "result0" in done.output


def test_a_program_that_came_explicit_has_nothing_to_explain() -> None:
    summed = TEXT.replace('[{}, {"model"}]', '[{"model"}, {}]')
    explicit = sw.load(summed).plan().partition().module("explicit")
    assert "sdy.all_reduce" in explicit
    with pytest.raises(sw.ShardingError, match="not propagated"):
        sw.load(explicit).plan().explain("result0")
