"""Commands as processes: standard streams that are closed, full or slow, and what is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from shardwright.process import write_descriptor

PROGRAM = """\
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}) -> tensor<16x64xf32> {
  %y = stablehlo.tanh %x : tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
COMMANDS = {
    "shardwright": "from shardwright.cli import main; main()",
    "shardwright-opt": "from shardwright.opt import main; main()",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "step.mlir").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """What `bash` makes of a line in which `shardwright` and `shardwright-opt` are this tree's commands."""
    functions = "".join(
        f"{name}() {{ '{sys.executable}' -P -c '{code}' \"$@\"; }}\n" for name, code in COMMANDS.items()
    )
    command = ["bash", "-c", f"set -o pipefail\n{functions}{line}"]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("command", ["shardwright propagate step.mlir", "shardwright-opt step.mlir"])
@pytest.mark.parametrize(
    ("where", "why"),
    [
        (">/dev/full", "No space left on device"),
        (">&-", "standard output is closed"),
        ("1</dev/null", "Bad file descriptor"),
    ],
)
def test_an_answer_that_cannot_be_written_is_an_error(folder: Path, command: str, where: str, why: str) -> None:
    done = shell(f"PYTHONUNBUFFERED=1 {command} {where}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot write" in done.stderr
    assert why in done.stderr


def test_a_reader_that_goes_away_ends_it_quietly(folder: Path) -> None:
    for command in ("shardwright --help", "shardwright-opt step.mlir"):
        done = shell(f"PYTHONUNBUFFERED=1 {command} | true")
        assert (done.returncode, done.stdout, done.stderr) == (141, "", "")


def test_closed_streams_are_nobody_elses(folder: Path) -> None:
    done = shell("shardwright propagate nope.mlir 2>&- <&-; echo $?; shardwright propagate - <&-; echo $?")
    assert done.stdout.split() == ["1", "1"]
    assert "standard input is closed" in done.stderr


def test_standard_input_may_come_slowly(folder: Path) -> None:
    """From a pipe that does not block, as some programs leave them, a read that finds nothing is not the end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    command = [sys.executable, "-c", COMMANDS["shardwright"], "propagate", "-"]
    with subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True) as process:
        for part in (PROGRAM[:100], PROGRAM[100:]):
            time.sleep(1)
            os.write(writing, part.encode())
        os.close(writing)
        assert process.stdout is not None
        assert process.stdout.read() == shell("shardwright propagate step.mlir").stdout.replace("step.mlir", "-") != ""
    os.close(reading)


def test_errors_that_cannot_be_told_keep_their_status(folder: Path) -> None:
    done = shell("shardwright nope 2>/dev/full; echo $?; shardwright-opt nope.mlir 2>/dev/full; echo $?")
    assert done.stdout.split() == ["2", "1"]


def test_the_names_of_standard_output_are_all_the_same(folder: Path) -> None:
    done = shell("shardwright propagate step.mlir -o /dev/stdout > a; shardwright propagate step.mlir -o - > b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (folder / "a").read_text() == (folder / "b").read_text() != ""


HOSTILE = ("click", "jax", "json", "numpy", "rich", "shardwright", "typing")
PROGRAM_COMMANDS = ("propagate", "partition", "verify --timeout 300", "explain")


def test_modules_of_the_current_folder_are_never_run(folder: Path) -> None:
    """Neither by the commands, nor by the processes that they start, nor by `python -m shardwright`."""
    for name in HOSTILE:
        (folder / f"{name}.py").write_text(f"open('run', 'a').write('{name}')\nraise SystemExit(9)")
    commands = [
        *(f"shardwright {command} step.mlir{' x' if command == 'explain' else ''}" for command in PROGRAM_COMMANDS),
        "shardwright run step.mlir -o stages",
        "shardwright convert step.mlir --to mhlo",
        "shardwright show --sharding '<@mesh, [{\"x\"}, {}]>' --shape 4x3 --mesh x=2",
        "shardwright-opt step.mlir -sdy-basic-propagate -emit-bytecode -o step.mlirbc",
        "shardwright propagate step.mlirbc",
    ]
    done = shell("\n".join(f"{command} > out || echo {number}" for number, command in enumerate(commands)))
    assert (done.stdout, done.stderr, (folder / "run").exists()) == ("", "", False)


def test_python_m_takes_no_module_of_the_current_folder(folder: Path) -> None:
    """But for the package itself, which Python looks for there."""
    for name in HOSTILE:
        if name != "shardwright":
            (folder / f"{name}.py").write_text("raise SystemExit(9)")
    command = [sys.executable, "-m", "shardwright", "verify", "step.mlir"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_takes_too_long_is_given_up(folder: Path) -> None:
    done = shell("shardwright verify step.mlir --timeout 0.01; shardwright run step.mlir --timeout 0")
    assert done.returncode == 2
    assert "took longer than 0.01 seconds" in done.stderr
    assert "--timeout" in done.stderr


def test_names_of_files_need_not_be_text(folder: Path) -> None:
    """Locations hold the name, and modules are UTF-8."""
    name = os.fsdecode(b"b\xff.mlir")
    (folder / name).write_text(PROGRAM)
    done = shell("shardwright partition b$'\\xff'.mlir -o out$'\\xff'.mlir && shardwright-opt out$'\\xff'.mlir"
                 " -mlir-print-debuginfo -o again.mlir")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert 'loc("b\\EF\\BF\\BD.mlir":' in (folder / "again.mlir").read_text()


def test_a_signal_while_a_child_is_started_is_heeded_when_it_is_known() -> None:
    """Nobody else would end the child, until it finds its parent gone."""
    code = (
        "import os, signal, subprocess, sys; from shardwright import process\n"
        "process.prepare()\n"
        "with process.undisturbed():\n"
        "    child = subprocess.Popen(['sleep', '60'])\n"
        "    print(child.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    process.children.add(child.pid)\n"
        "print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, len(done.stdout.split())) == (143, "", 1)
    assert not Path(f"/proc/{done.stdout.strip()}").exists()


def test_all_is_written_to_a_pipe_that_takes_little_at_a_time() -> None:
    data = os.urandom(1 << 20)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    received = bytearray()

    def read() -> None:
        while part := os.read(reading, 1 << 12):
            received.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    write_descriptor(writing, data)
    os.close(writing)
    reader.join()
    os.close(reading)
    assert received == data


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("arguments", "status"), [(("step.mlir",), 0), (("missing.mlir",), 1)])
def test_a_command_ends_at_once_with_its_status(
    folder: Path, command: str, arguments: tuple[str, ...], status: int
) -> None:
    code = f"import atexit; atexit.register(print, 'taken down'); {COMMANDS[command]}"
    verb = ("propagate",) if command == "shardwright" else ()
    line = [sys.executable, "-c", code, *verb, *arguments]
    done = subprocess.run(line, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status
    assert ("stablehlo.tanh" in done.stdout) == (status == 0)
    assert ("missing.mlir" in done.stderr) == (status == 1)
    assert "taken down" not in done.stdout
