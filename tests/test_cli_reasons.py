"""`--reasons` of the commands that split ops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import shardwright as sw
from shardwright.cli import cli

_TEXT = """\
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<8x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<512x64xf32>) -> tensor<8x64xf32> {
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x512xf32>, tensor<512x64xf32>) -> tensor<8x64xf32>
  %1 = stablehlo.tanh %0 : tensor<8x64xf32>
  return %1 : tensor<8x64xf32>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "step.mlir").write_text(_TEXT)
    return str(tmp_path / "step.mlir")


def test_every_choice_is_told_with_what_the_next_best_takes(file: str) -> None:
    spmd = sw.load(file).shard().partition(reasons=True)
    assert spmd.reasons is not None
    assert [reason.op for reason in spmd.reasons] == ["stablehlo.dot_general", "stablehlo.tanh"]
    product, _ = spmd.reasons
    assert repr(product.operands) == "([{x}, {}], [{}, {}])"
    assert repr(product.results) == "([{x}, {}],)"
    assert product.location.endswith("step.mlir:3")
    assert product.alike == 1
    assert product.seconds_more > 0
    assert sw.load(file).shard().partition().reasons is None


@pytest.mark.parametrize("command", ["run", "partition", "verify"])
def test_reasons_are_printed_and_are_json(command: str, file: str, tmp_path: Path) -> None:
    output = () if command == "verify" else ("-o", str(tmp_path / "out"))
    done = CliRunner().invoke(cli, [command, file, "--reasons", *output])
    assert done.exit_code == 0, done.output
    assert "Why ops are split as they are, by the price (2 choices)" in done.stdout
    assert "stablehlo.dot_general: [{x}, {}], [{}, {}] → [{x}, {}]" in done.stdout
    assert "the next best takes " in done.stdout
    done = CliRunner().invoke(cli, [command, file, "--reasons", "--json", *output])
    (product, tanh) = json.loads(done.stdout)["reasons"]
    assert product["split"] == "[{x}, {}], [{}, {}] → [{x}, {}]"
    assert product["seconds_more"] >= tanh["seconds_more"]


def test_what_is_explicit_already_has_no_choices(file: str) -> None:
    by_columns = Path(file).read_text().replace('[{"x"}, {}]', '[{}, {"x"}]')
    explicit = sw.load(by_columns).shard().partition().module("explicit")
    assert "sdy.all_" in explicit
    spmd = sw.load(explicit).shard().partition(reasons=True)
    assert spmd.reasons == ()


@pytest.mark.parametrize("output", [(), ("-o", "-")])
def test_where_the_module_takes_standard_output_there_are_no_reasons(output: tuple[str, ...], file: str) -> None:
    done = CliRunner().invoke(cli, ["partition", file, "--reasons", *output])
    assert done.exit_code == 2
    assert "without -o FILE or --json: --reasons" in done.stderr
    assert not done.stdout
