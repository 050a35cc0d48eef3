"""`shardwright show` and `shardwright convert --sharding`: what users see, and that mistakes end in a diagnostic."""

from __future__ import annotations

import json
import os
import shlex
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardwright.cli import cli
from shardwright.errors import ShardingError
from shardwright.notation import registry
from shardwright.notation.notation import Notation, Shape
from shardwright.sharding import TensorSharding

ROWS = ("--sharding", '<@mesh, [{"x"}, {}]>', "--shape", "4x3", "--mesh", "x=2")
SUMS = ("--sharding", '<@mesh, [{"x"}, {}], unreduced={"y"}>', "--shape", "7x3", "--mesh", "x=4,y=2")


def shardwright(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def good(*args: str) -> str:
    result = shardwright(*args)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _refuse(sharding: TensorSharding, shape: Shape | None) -> str:
    raise ShardingError("mute has no words", cause="it never had")


def _unread(text: str, shape: Shape | None, mesh: object) -> TensorSharding:
    raise AssertionError


MUTE = Notation("mute", "says nothing", lambda text: False, _unread, _refuse)


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notation that can say nothing, beside those there are."""
    monkeypatch.setitem(registry._HOMES, "mute", f"{__name__}:MUTE")


def test_show_draws_both_pictures_plain_when_piped() -> None:
    text = good("show", *ROWS)
    assert "\x1b" not in text
    assert "  0:2 │ 0   │\n      │ 2x3 │" in text
    assert "│ [0:2, 0:3] │ [2:4, 0:3] │" in text


def test_show_names_partials_and_uneven_sizes() -> None:
    text = good("show", *SUMS)
    assert "partial sum over y: 2 contributions to every tile" in text
    assert "  6:7 │ 6 7 │\n      │ 1x3 │" in text


def test_show_writes_svg(folder: Path) -> None:
    text = good("show", *ROWS, "-o", "tiles.svg")
    assert "tiles.svg" in text
    assert os.listdir(folder) == ["tiles.svg"]
    written = (folder / "tiles.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(written).tag.endswith("svg")
    assert good("show", *ROWS, "-o", "-") == written


def test_show_answers_in_json(folder: Path) -> None:
    answer = json.loads(good("show", *ROWS, "--json", "-o", "tiles.svg"))
    assert answer["shape"] == [4, 3]
    assert answer["mesh"] == {"axes": {"x": 2}, "devices": 2}
    assert [tile["slice"] for tile in answer["tiles"]] == [[[0, 2], [0, 3]], [[2, 4], [0, 3]]]
    assert [device["devices"] for device in answer["devices"]] == [[0], [1]]
    assert answer["written"] == {"picture": "tiles.svg"}


def test_show_of_a_huge_mesh_is_quick() -> None:
    start = time.perf_counter()
    text = good("show", "--sharding", '<@mesh, [{"x"}, {"y"}]>', "--shape", "1024x1024", "--mesh", "x=128,y=128")
    assert time.perf_counter() - start < 2
    assert "16383" in text


def test_show_of_a_scalar() -> None:
    assert "tensor scalar, not cut" in good("show", "--sharding", "<@mesh, []>", "--shape", "", "--mesh", "x=2")


def test_convert_prints_one_notation_as_it_is() -> None:
    assert good("convert", *SUMS, "--to", "sdy") == '#sdy.sharding<@mesh, [{"x"}, {}], unreduced={"y"}>\n'


@pytest.mark.usefixtures("mute")
def test_convert_to_all_says_why_not() -> None:
    texts, _, refused = good("convert", *ROWS).partition("Not expressible")
    assert '#sdy.sharding<@mesh, [{"x"}, {}]>' in texts
    assert "mute has no words" in refused


@pytest.mark.usefixtures("mute")
def test_convert_answers_in_json() -> None:
    answer = json.loads(good("convert", *ROWS, "--json"))
    assert answer["texts"]["sdy"] == '#sdy.sharding<@mesh, [{"x"}, {}]>'
    assert answer["refused"]["mute"] == {"message": "mute has no words", "cause": "it never had"}


@pytest.mark.usefixtures("mute")
def test_convert_to_one_that_cannot_say_it_fails() -> None:
    result = shardwright("convert", *ROWS, "--to", "mute")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: mute has no words")


MISTAKES = {
    "no notation": (("--sharding", "what", "--shape", "4"), "not a sharding in any notation: 'what'"),
    "malformed": (("--sharding", "<@mesh, [{", "--shape", "4", "--mesh", "x=2"), ""),
    "unknown axis": (("--sharding", '<@mesh, [{"z"}]>', "--shape", "4", "--mesh", "x=2"), "unknown mesh axis 'z'"),
    "no mesh": (("--sharding", '<@mesh, [{"x"}]>', "--shape", "4"), "mesh"),
    "bad mesh": ((*ROWS[:4], "--mesh", "x"), "not a mesh: 'x'"),
    "words": ((*ROWS[:2], "--shape", "4xa", "--mesh", "x=2"), "not a shape: '4xa'"),
    "negative": ((*ROWS[:2], "--shape", "-4x3", "--mesh", "x=2"), "not a shape: '-4x3'"),
    "a gap": ((*ROWS[:2], "--shape", "4x", "--mesh", "x=2"), "not a shape: '4x'"),
    "unknown size": ((*ROWS[:2], "--shape", "?x3", "--mesh", "x=2"), "not a shape: '?x3'"),
    "endless": ((*ROWS[:2], "--shape", "9" * 5000, "--mesh", "x=2"), "not a shape: '999"),
    "other rank": ((*ROWS[:2], "--shape", "4", "--mesh", "x=2"), "2 dimensions"),
}


@pytest.mark.parametrize("command", ["show", "convert"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_diagnosed_and_nothing_written(folder: Path, command: str, name: str) -> None:
    options, message = MISTAKES[name]
    result = shardwright(command, *options, *(("-o", "out.svg") if command == "show" else ()))
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert message in result.stderr.splitlines()[0]
    assert "mistake in shardwright" not in result.stderr
    assert os.listdir(folder) == []


@pytest.mark.parametrize(("output", "message"), [("x.png", "cannot write a picture"), ("no/x.svg", "cannot write")])
def test_a_place_that_takes_no_picture(folder: Path, output: str, message: str) -> None:
    result = shardwright("show", *ROWS, "-o", output)
    assert result.exit_code == 1
    assert message in result.stderr
    assert os.listdir(folder) == []


def test_an_unknown_notation_is_named() -> None:
    result = shardwright("convert", *ROWS, "--to", "klingon")
    assert result.exit_code == 1
    assert "unknown notation 'klingon'" in result.stderr


@pytest.mark.parametrize(("command", "count"), [("show", 2), ("convert", 3)])
def test_the_help_has_examples_that_run(folder: Path, command: str, count: int) -> None:
    text = good(command, "--help")
    examples = [line.strip() for line in text.splitlines() if line.startswith(f"    shardwright {command}")]
    assert len(examples) == count
    (folder / "examples").symlink_to(Path(__file__).parents[1] / "examples")
    for example in examples:
        good(*shlex.split(example)[1:])


MODULE = """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %y = shard.shard %x to %s : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_a_module_is_written_in_another_notation(folder: Path) -> None:
    (folder / "step.mlir").write_text(MODULE)
    assert 'sdy.mesh @grid = <["axis_0"=2]>' in good("convert", "step.mlir", "--to", "sdy")
    good("convert", "step.mlir", "--to", "mhlo", "-o", "out.mlir")
    assert 'mhlo.sharding = "{devices=[2]<=[2]}"' in (folder / "out.mlir").read_text()
    told = json.loads(good("convert", "step.mlir", "--to", "rfc", "--json"))
    assert (told["from"], told["to"]) == ("shard", "rfc")
    assert "mesh.cluster @grid(rank = 1, dim_sizes = [2])" in told["module"]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("step.mlir",), 2, "give --to"),
        ((), 2, "give either FILE or --sharding"),
        (("step.mlir", *ROWS), 2, "give either FILE or --sharding"),
        (("step.mlir", "--to", "sdy", "--mesh", "x=2"), 2, "--shape and --mesh go with --sharding"),
        (("--sharding", "P('x')", "--to", "sdy"), 2, "--shape"),
        ((*ROWS, "-o", "out.mlir"), 2, "-o goes with FILE"),
        (("step.mlir", "--to", "klingon"), 1, "unknown notation"),
        (("nowhere.mlir", "--to", "sdy"), 1, "cannot read"),
        (("bad.mlir", "--to", "sdy", "-o", "out.mlir"), 1, "bad.mlir:4:8: error: Undefined required grid symbol"),
    ],
)
def test_wrong_input_is_refused_and_nothing_written(
    folder: Path, arguments: tuple[str, ...], status: int, words: str
) -> None:
    (folder / "step.mlir").write_text(MODULE)
    (folder / "bad.mlir").write_text(MODULE.replace("shard.sharding @grid", "shard.sharding @gird"))
    result = shardwright("convert", *arguments)
    assert result.exit_code == status
    assert words in result.stderr
    assert not (folder / "out.mlir").exists()


def test_the_order_of_devices_is_told() -> None:
    reordered = ["convert", "--sharding", "{devices=[2,1]1,0}", "--shape", "8x16"]
    done = CliRunner().invoke(cli, reordered)
    assert done.stdout.startswith("mesh a=2 (2 devices, in the order 1, 0)\n")
    done = CliRunner().invoke(cli, [*reordered, "--to", "jax"])
    assert (done.stdout, done.stderr) == (
        "P('a', None)\n",
        "on mesh a=2 (2 devices, in the order 1, 0), which the text does not say\n",
    )
    done = CliRunner().invoke(cli, [*reordered, "--to", "mhlo"])
    assert (done.stdout, done.stderr) == ("{devices=[2,1]1,0}\n", "")
    done = CliRunner().invoke(cli, [*reordered, "--json"])
    assert json.loads(done.stdout)["mesh"]["device_ids"] == [1, 0]


def test_a_word_that_is_no_sharding_is_refused_on_short_lines() -> None:
    done = CliRunner().invoke(cli, ["show", "--sharding", "hello", "--shape", "4x3"])
    assert done.exit_code == 1
    assert max(map(len, done.output.splitlines())) <= 120


def test_what_a_notation_cannot_express_is_told_at_the_line_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "reordered.mlir"
    file.write_text('sdy.mesh @mesh = <["x"=2], device_ids=[1, 0]>\nfunc.func @main() {\n  return\n}\n')
    done = CliRunner().invoke(cli, ["convert", str(file), "--to", "shard"])
    assert done.output.startswith(f"{file}:1: error: the shard dialect cannot express the device order")
