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


def test_json_names_axes_and_numbers_as_the_text_does(file: str) -> None:
    [value] = json.loads(shardwright("explain", file, "%0", "--json").output)["values"]
    assert (value["name"], value["printed"]) == ("stablehlo.dot_general", "%0")
    assert value["annotation"] is None
    assert [chain["axis"] for chain in value["chains"]] == ["data", "model"]
    assert all(link["axis"] == chain["axis"] for chain in value["chains"] for link in chain["links"])


def test_json_tells_of_stops(file: str) -> None:
    Path(file).write_text(TEXT.replace('[{}, {"model"}]', '[{"model"}, {}]'))
    [value] = json.loads(shardwright("explain", file, "%0", "--json").output)["values"]
    assert [(stop["axis"], stop["reason"], stop["inward"]) for stop in value["stops"]] == [("model", "reduced", True)]


def test_phases_are_told_when_everything_is_asked_for(file: str) -> None:
    assert "round" not in shardwright("explain", file, "result0").output
    assert "priority 0, round 3, aggressive" in shardwright("explain", file, "result0", "--all").output


_LOOP = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%u = %a, %v = %i) : tensor<8xf32>, tensor<i32> cond {
    %c = stablehlo.compare LT, %v, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %t = sdy.sharding_constraint %u <@mesh, [{"x"}]> : tensor<8xf32>
    stablehlo.return %t, %v : tensor<8xf32>, tensor<i32>
  }
  return %0#0 : tensor<8xf32>
}
"""


def test_numbers_are_those_that_propagate_prints(file: str) -> None:
    Path(file).write_text(_LOOP)
    printed = shardwright("propagate", file).output
    assert "%c = stablehlo.constant" in printed
    assert "%0:2 = stablehlo.while(%iterArg = " in printed
    for value, head in (
        ("%c", "%c = stablehlo.constant: []"),
        ("%0#0", "%0#0 = stablehlo.while#0: [{x}]"),
        ("%iterArg", "%iterArg = argument 0 of its body, stablehlo.while: [{x}]"),
    ):
        assert shardwright("explain", file, value).output.startswith(head)


def test_a_bare_number_is_asked_back(file: str) -> None:
    done = shardwright("explain", file, "1")
    assert done.exit_code == 1
    assert "argument 1 is called w" in done.output
    assert "give %1" in done.output


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


def test_what_nothing_reads_is_said_to_be_left_out(tmp_path: Path) -> None:
    unread = tmp_path / "unread.mlir"
    lines = TEXT.splitlines()
    end = lines.index("  return %1 : tensor<16x256xf32>")
    unread.write_text("\n".join([*lines[:end], "  %2 = stablehlo.tanh %x : tensor<16x64xf32>", *lines[end:]]))
    done = shardwright("explain", str(unread), f"unread.mlir:{end + 1}")
    assert done.exit_code == 1
    assert "is left out" in done.output
    assert "nothing reads it" in done.output
    assert "no value is made at" in shardwright("explain", str(unread), "unread.mlir:1").output


PRODUCT = """\
stablehlo.dot_general
  step.mlir:6
  loop types: [parallel, parallel, reduction_sum]
  indexing maps:
  (d0, d1, d2) -> (d0, d2)   operand 0   tensor<16x64xf32>
  (d0, d1, d2) -> (d2, d1)   operand 1   tensor<64x256xf32>
  (d0, d1, d2) -> (d0, d1)   result 0    tensor<16x256xf32>
  rule: ([i, k], [k, j])->([i, j]) {i=16, j=256, k=64} reduction={k}
"""


@pytest.mark.parametrize("name", ["dot_general", "stablehlo.dot_general"])
def test_the_loops_of_an_op_are_told_by_its_name(file: str, name: str) -> None:
    done = shardwright("explain", file, "--rule", name)
    assert (done.exit_code, done.output) == (0, PRODUCT)


def test_loops_for_machines(file: str) -> None:
    (op,) = json.loads(shardwright("explain", file, "--rule", "tanh", "--json").output)["ops"]
    assert op["loop_iterator_types"] == ["parallel", "parallel"]
    assert op["loop_sizes"] == [16, 256]
    assert [one["tensor"] for one in op["indexing_maps"]] == ["operand 0", "result 0"]
    assert (op["count"], op["location"]) == (1, "step.mlir:8")


def test_an_op_that_is_not_there_is_told_with_those_that_are(file: str) -> None:
    done = shardwright("explain", file, "--rule", "dot_generl")
    assert done.exit_code == 1
    assert "no op called 'dot_generl'" in done.output
    assert "it has dot_general" in done.output


def test_an_op_without_a_rule_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "own.mlir"
    path.write_text(
        'func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = "vendor.blur"(%x) : (tensor<4xf32>) '
        "-> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )
    done = shardwright("explain", str(path), "--rule", "blur")
    assert done.exit_code == 1
    assert "own.mlir:2: error: the op has no loops that are known" in done.output.replace("\n", "")


@pytest.mark.parametrize("given", [("--all",), ("--mesh", "x=2"), ("--strategy", "basic", "--conservative")])
def test_a_rule_depends_on_no_sharding(file: str, given: tuple[str, ...]) -> None:
    done = shardwright("explain", file, "--rule", "tanh", *given)
    assert done.exit_code == 2
    assert f"with --rule: {given[0]}" in done.output


@pytest.mark.parametrize("given", [(), ("%1", "--rule", "tanh")])
def test_a_value_or_an_op_is_to_be_given(file: str, given: tuple[str, ...]) -> None:
    done = shardwright("explain", file, *given)
    assert done.exit_code == 2
    assert "VALUE, or an op by --rule" in done.output
