"""The command line: what users see, and that what they get wrong ends in a diagnostic and no file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from shardwright.cli import cli
from shardwright.frontends import load as module

COMMANDS = ("run", "propagate", "partition", "verify", "analyze")
WRITE_NOTHING = ("verify", "analyze")
MATMUL = """\
func.func @main(%x: tensor<16x64xf32>, %w: tensor<64x32xf32>) -> tensor<16x32xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  return %y : tensor<16x32xf32>
}
"""
SHARDED = ("--mesh", "data=2,model=4", "--arg", "x=data,model", "--arg", "w=model,.")
ANNOTATED = """\
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x64xf32> {
  %y = stablehlo.tanh %x : tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a program that has no annotations and one that has."""
    (tmp_path / "matmul.mlir").write_text(MATMUL)
    (tmp_path / "step.mlir").write_text(ANNOTATED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shardwright(*args: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(map(str, args)), input=stdin)


def good(*args: str | Path, stdin: str | None = None) -> Result:
    result = shardwright(*args, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def refused(folder: Path, *args: str | Path, status: int = 1) -> str:
    """What is said on standard error; nothing is said on standard output and nothing written."""
    before = sorted(os.listdir(folder))
    result = shardwright(*args)
    assert result.exit_code == status, result.output
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(os.listdir(folder)) == before
    return result.stderr


def diagnosed(errors: str, location: str, message: str) -> None:
    head, *rest = errors.splitlines()
    assert head.startswith(location)
    assert message in head
    assert any(line.startswith("  why:    ") for line in rest)
    assert any(line.startswith("  change: ") for line in rest)


BAD_FILES = {
    "malformed": (ANNOTATED.replace("tanh", "tanhh"), "bad.mlir:3:8: ", "stablehlo.tanhh"),
    "cut off": (ANNOTATED[:150], "bad.mlir:2:", "not valid MLIR"),
    "too deep": ("func.func @main() {\n" + '"a.b"() ({\n' * 5000, "bad.mlir:", "deep"),
    "unknown mesh": (ANNOTATED.replace("<@mesh", "<@mash"), "bad.mlir:2:17: ", "unknown mesh @mash"),
    "unknown axis": (ANNOTATED.replace('{"data"}', '{"date"}'), "bad.mlir:2:17: ", "unknown mesh axis 'date'"),
    "axis twice": (ANNOTATED.replace("{}]", '{"data"}]'), "bad.mlir:2:17: ", 'mesh axis "data" is used twice'),
    "too many entries": (
        ANNOTATED.replace("{}]", "{}, {}]"),
        "bad.mlir:2:17: ",
        "a sharding of 3 dimensions is given to a tensor of 2",
    ),
    "dynamic": (ANNOTATED.replace("16x64", "?x64"), "bad.mlir:", "is not a tensor of static shape"),
    "two meshes": (
        'sdy.mesh @a = <["x"=3]>\n'
        + ANNOTATED.replace("return", "sdy.sharding_constraint %x <@a, [{}, {}]> : tensor<16x64xf32>\n  return"),
        "bad.mlir:2: ",
        "meshes of different size",
    ),
    "no function": ("module {}\n", "bad.mlir: ", "no function @main"),
    "not MLIR": ("\0\1\2", "bad.mlir", "the file is neither MLIR text nor MLIR bytecode"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_program_is_diagnosed_and_nothing_written(folder: Path, command: str, name: str) -> None:
    text, location, message = BAD_FILES[name]
    (folder / "bad.mlir").write_text(text)
    output = () if command in WRITE_NOTHING else ("-o", "out")
    diagnosed(refused(folder, command, "bad.mlir", *output), location, message)


BAD_OPTIONS = {
    "no mesh": ((), "matmul.mlir: ", "the program has no mesh"),
    "malformed mesh": (("--mesh", "data:2"), "", "not a mesh: 'data:2'"),
    "mesh of size 0": (("--mesh", "data=0"), "", "mesh axis 'data' has size 0"),
    "axis of a mesh twice": (("--mesh", "data=2,data=2"), "", "mesh axis 'data' appears twice"),
    "unknown argument": (("--mesh", "x=8", "--arg", "q=x,."), "matmul.mlir: ", "the program has no argument 'q'"),
    "unknown index": (("--mesh", "x=8", "--arg", "2=x,."), "matmul.mlir: ", "the program has no argument number 2"),
    "no spec": (("--mesh", "x=8", "--arg", "w"), "", "not NAME_OR_INDEX=SPEC: 'w'"),
    "malformed spec": (("--mesh", "x=8", "--arg", "w=x+,."), "w=x+,.: ", "not a sharding"),
    "unknown axis": (("--mesh", "x=8", "--arg", "w=y,."), "w=y,.: ", "unknown mesh axis 'y'"),
    "axis twice": (("--mesh", "x=8", "--arg", "w=x,x"), "w=x,x: ", "mesh axis 'x' is used twice"),
    "too many entries": (("--mesh", "x=8", "--arg", "w=x,.,."), "w=x,.,.: ", "the tensor has 2 dimensions"),
    "argument twice": (("--mesh", "x=8", "--arg", "w=x,.", "--arg", "w=.,x"), "", "argument 'w' is given two"),
    "too many devices": (("--mesh", "x=8", "--devices", "4"), "matmul.mlir: ", "the mesh has 8 devices, 4 were asked"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_a_bad_option_is_diagnosed_and_nothing_written(folder: Path, command: str, name: str) -> None:
    options, location, message = BAD_OPTIONS[name]
    output = () if command in WRITE_NOTHING else ("-o", "out")
    errors = refused(folder, command, "matmul.mlir", *options, *output)
    assert errors.startswith(f"{location}error: ")
    assert message in errors
    assert "  change: " in errors


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_there(folder: Path, command: str) -> None:
    diagnosed(refused(folder, command, "no.mlir"), "no.mlir: ", "cannot read")


def test_a_folder_in_place_of_a_file(folder: Path) -> None:
    diagnosed(refused(folder, "propagate", "."), ".: ", "cannot read")


def test_another_mesh_than_the_programs_own(folder: Path) -> None:
    diagnosed(refused(folder, "propagate", "step.mlir", "--mesh", "x=8"), "step.mlir: ", "Mesh(x=8) was given")


@pytest.mark.parametrize("command", ["propagate", "partition"])
def test_a_place_that_cannot_be_written(folder: Path, command: str) -> None:
    diagnosed(refused(folder, command, "step.mlir", "-o", "no/out.mlir"), "no/out.mlir: ", "cannot write")


def test_a_file_where_run_wants_a_folder(folder: Path) -> None:
    assert "cannot make the folder 'matmul.mlir'" in refused(folder, "run", "step.mlir", "-o", "matmul.mlir")


@pytest.mark.parametrize("command", ["run", "verify"])
def test_more_virtual_devices_than_a_machine_should_start(folder: Path, command: str) -> None:
    errors = refused(folder, command, "matmul.mlir", "--mesh", "x=4096")
    assert "the mesh has 4096 devices, at most 512 virtual ones are started unasked" in errors


def test_a_large_mesh_without_devices_is_no_problem(folder: Path) -> None:
    good("partition", "matmul.mlir", "--mesh", "x=4096", "-o", "out.mlir")


@pytest.mark.parametrize("command", ["run", "verify"])
def test_inputs_that_cannot_be_read(folder: Path, command: str) -> None:
    assert "inputs cannot be read from no.npz" in refused(folder, command, "step.mlir", "--inputs", "no.npz")


@pytest.mark.parametrize("command", ["run", "verify"])
@pytest.mark.parametrize(
    ("name", "shape", "message"), [("q", (16, 64), "belong to no argument"), ("x", (3,), "input x has shape")]
)
def test_inputs_that_do_not_fit(folder: Path, command: str, name: str, shape: tuple[int, ...], message: str) -> None:
    arrays: dict[str, np.ndarray] = {name: np.ones(shape, np.float32)}
    np.savez(folder / "in.npz", allow_pickle=False, **arrays)
    assert message in refused(folder, command, "step.mlir", "--inputs", "in.npz")


@pytest.mark.parametrize("args", [("nothing",), ("run",), ("run", "a", "b"), ("partition", "a", "--stage", "none")])
def test_wrong_usage(folder: Path, args: tuple[str, ...]) -> None:
    assert "Usage: " in refused(folder, *args, status=2)


def test_an_error_of_our_own_is_no_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(module, "load_source", broken)
    errors = refused(folder, "propagate", "step.mlir")
    assert "KeyError" in errors
    assert "mistake in shardwright" in errors


def test_an_interrupt_ends_with_its_own_status(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "load_source", interrupted)
    assert refused(folder, "propagate", "step.mlir", status=130) == ""


def test_propagate_prints_the_module(folder: Path) -> None:
    text = good("propagate", "step.mlir").stdout
    assert text.count('#sdy.sharding<@mesh, [{"data"}, {}]>') == 2
    assert good("propagate", "-", stdin=text).stdout.count('{"data"}') == text.count('{"data"}')


def test_propagate_writes_the_module_and_prints_a_summary(folder: Path) -> None:
    text = good("propagate", "step.mlir", "-o", "full.mlir").stdout
    assert "step.mlir: 2 ops, 1 argument, 1 result\nmesh data=2 × model=4 (8 devices)\n" in text
    assert "annotated by you   1\n" in text
    assert (folder / "full.mlir").read_text() == good("propagate", "step.mlir").stdout


@pytest.mark.parametrize(("stage", "op"), [("explicit", "sdy.all_reduce"), ("local", "stablehlo.all_reduce")])
def test_partition_writes_the_stage_asked_for(folder: Path, stage: str, op: str) -> None:
    text = good("partition", "matmul.mlir", *SHARDED, "--stage", stage, "-o", "out.mlir").stdout
    assert op in (folder / "out.mlir").read_text()
    assert "  all_reduce            1          1" in text
    assert "Memory per device" in text


def test_a_program_that_cannot_be_described_is_not_written(folder: Path) -> None:
    text = """sdy.mesh @m = <["x"=2]>
    func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{}]>}) -> tensor<4xf32> {
      %0 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @gone, axes = [#stablehlo.axis_ref<name = "x">]>,
        use_global_device_ids}> ({
      ^bb0(%b: tensor<f32>, %c: tensor<f32>):
        %1 = stablehlo.add %b, %c : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    (folder / "odd.mlir").write_text(text)
    refused(folder, "partition", "odd.mlir", "--stage", "explicit", "-o", "out.mlir")


def test_partition_writes_the_local_module_if_nothing_is_said(folder: Path) -> None:
    assert "tensor<8x16xf32>" in good("partition", "matmul.mlir", *SHARDED).stdout


def test_arguments_by_index_and_by_name(folder: Path) -> None:
    by_index = ("--mesh", "data=2,model=4", "--arg", "0=data,model", "--arg", "1=model,.")
    assert good("propagate", "matmul.mlir", *by_index).stdout == good("propagate", "matmul.mlir", *SHARDED).stdout


def test_the_number_of_devices_asked_for_is_enough(folder: Path) -> None:
    good("propagate", "step.mlir", "--devices", "8")


def test_run_does_all_of_it(folder: Path) -> None:
    text = good("run", "matmul.mlir", *SHARDED).stdout
    for part in ("Tensors", "Collectives", "Memory per device", "Results: equal to the unsharded program", "Time"):
        assert f"\n{part}\n" in text
    assert "  local        matmul.stages/local.mlir" in text.splitlines()
    assert sorted(os.listdir("matmul.stages")) == ["explicit.mlir", "local.mlir", "propagated.mlir"]


def test_run_writes_where_it_is_told(folder: Path) -> None:
    good("run", "step.mlir", "-o", "a/b")
    assert (folder / "a" / "b" / "local.mlir").is_file()


def test_verify_says_whether_results_are_equal_and_writes_nothing(folder: Path) -> None:
    before = sorted(os.listdir(folder))
    assert "Results: equal to the unsharded program" in good("verify", "step.mlir", "--seed", "3").stdout
    assert sorted(os.listdir(folder)) == before


def test_verify_takes_inputs_from_a_file(folder: Path) -> None:
    np.savez(folder / "in.npz", x=np.full((16, 64), np.nan, np.float32))
    result = shardwright("verify", "step.mlir", "--inputs", "in.npz")
    assert result.exit_code == 0
    assert "Results: equal to the unsharded program" in result.stdout
    assert "1,024 of 1,024 elements of the reference are NaN: they must be so in both" in result.stdout
    assert json.loads(shardwright("verify", "step.mlir", "--inputs", "in.npz", "--json").stdout)


def test_json_is_the_whole_summary(folder: Path) -> None:
    summary = json.loads(good("run", "matmul.mlir", *SHARDED, "--json").stdout)
    assert summary["mesh"] == {"axes": {"data": 2, "model": 4}, "devices": 8}
    assert summary["collectives"]["kinds"]["all_reduce"]["executed"] == 1
    assert summary["verification"]["ok"] is True
    assert summary["written"]["local"] == "matmul.stages/local.mlir"
    assert set(summary) >= {"program", "tensors", "memory", "notes", "seconds"}


def test_json_of_a_stage(folder: Path) -> None:
    assert json.loads(good("propagate", "step.mlir", "--json").stdout)["tensors"]["annotated"] == 1
    assert "memory" in json.loads(good("partition", "step.mlir", "--json").stdout)


SORTED = """\
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = "stablehlo.sort"(%x) <{dimension = 0}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
"""


@pytest.mark.parametrize("command", ["run", "partition", "verify"])
def test_what_needs_a_fallback_is_refused_where_it_is_to_be_strict(folder: Path, command: str) -> None:
    (folder / "sorted.mlir").write_text(SORTED)
    output = ("-o", "out") if command != "verify" else ()
    text = refused(folder, command, "sorted.mlir", "--mesh", "x=2", "--arg", "x=x", "--strict", *output)
    assert text.startswith("sorted.mlir:2: error: it cannot be partitioned strictly: 1 fallback\n")
    assert "why:    sorted.mlir:2: stablehlo.sort: operand 0 is gathered along dimension 0: no local form" in text
    assert "or do without strict" in text


def test_a_program_of_one_device_is_written_in_the_shard_dialect(folder: Path) -> None:
    text = good("partition", "matmul.mlir", *SHARDED, "--to", "shard").stdout
    assert "shard.all_reduce %0 on @mesh grid_axes = [1] : tensor<8x32xf32> -> tensor<8x32xf32>" in text
    (folder / "local.mlir").write_text(text)
    assert '"stablehlo.all_reduce"(%0)' in good("partition", "local.mlir").stdout
    assert "shard.all_reduce %0 on @mesh" in good("partition", "local.mlir", "--to", "shard").stdout
    assert "shard.shard %" in good("partition", "matmul.mlir", *SHARDED, "--to", "shard", "--stage", "explicit").stdout
    assert "cannot be written as 'mhlo'" in refused(folder, "partition", "matmul.mlir", *SHARDED, "--to", "mhlo")


def test_a_device_may_take_whole_arguments(folder: Path) -> None:
    assert "%arg0: tensor<8x64xf32>" in good("partition", "step.mlir").stdout
    text = good("partition", "step.mlir", "--arguments", "whole").stdout
    assert "%arg0: tensor<16x64xf32>" in text
    assert "stablehlo.partition_id" in text
    assert "Results: equal" in good("verify", "step.mlir", "--arguments", "whole").stdout
    assert "'half' is not one of 'split', 'whole'" in refused(
        folder, "partition", "step.mlir", "--arguments", "half", status=2
    )


@pytest.mark.parametrize("command", ["run", "partition", "verify"])
def test_what_needs_no_fallback_may_be_strict(folder: Path, command: str) -> None:
    good(command, "step.mlir", "--strict")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_grammar(command: str) -> None:
    text = good(command, "--help").stdout
    assert f"  shardwright {command} examples/gpt2.mlir" in text
    assert "--mesh " in text
    assert "AXIS+AXIS     split over both, the first one major" in text


def test_the_version() -> None:
    assert good("--version").stdout.startswith("shardwright")


def test_piped_output_is_plain_and_unbroken(folder: Path) -> None:
    name = "a_program_with_a_long_name_" * 6 + ".mlir"
    (folder / name).write_text(ANNOTATED)
    environment = {**os.environ, "COLUMNS": "40", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "shardwright", "propagate", name, "-o", "out.mlir"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith(f"{name}: 2 ops, 1 argument, 1 result\n")
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
    assert done.stderr == ""


def test_a_reader_that_closes_the_pipe_is_no_error(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}
    (folder / "many.mlir").write_text(_many_ops(4000))
    command = [sys.executable, "-m", "shardwright", "propagate", "many.mlir"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == 141
        assert process.stderr.read() == b""


def _many_ops(count: int) -> str:
    lines = [f"  %v{i + 1} = stablehlo.tanh %v{i} : tensor<16x64xf32>" for i in range(count)]
    head = ANNOTATED[: ANNOTATED.index("  %y")].replace("%x", "%v0")
    return "\n".join([head.rstrip(), *lines, f"  return %v{count} : tensor<16x64xf32>", "}", ""])
