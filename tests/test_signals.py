"""Signals end a command at any moment: without a word, with the status of shells, and nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ENDLESS = """\
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<8xi32> cond {
    %t = stablehlo.compare EQ, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %y = stablehlo.add %x, %x : tensor<8xi32>
    stablehlo.return %i, %y : tensor<i32>, tensor<8xi32>
  }
  return %0#1 : tensor<8xi32>
}
"""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PARENT = "from shardwright.cli import main; main()"


@contextmanager
def _heard(ignored: frozenset[int]) -> Iterator[None]:
    """Children inherit what is ignored, and what starts the tests in the background may ignore more than is meant."""
    before = {
        number: signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL) for number in SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Command:
    """A command in a session of its own, in a folder with a program that does not end."""

    def __init__(self, folder: Path, *arguments: str, ignored: frozenset[int] = frozenset()) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        (folder / "endless.mlir").write_text(ENDLESS)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(self.temporary)}
        with _heard(ignored):
            self.process = subprocess.Popen(
                [sys.executable, "-c", PARENT, *arguments],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def group(self) -> list[str]:
        """The processes of the session that have not ended."""
        processes = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended in the meantime
                state, _, group = stat.read_text().rsplit(")", 1)[1].split()[:3]
                if group == str(self.process.pid) and state != "Z":
                    processes.append(stat.parent.name)
        return processes

    def wait_for_worker(self) -> None:
        end = time.monotonic() + 120
        while len(self.group()) < 2:
            assert self.process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)

    def send(self, number: int, *, to_all: bool) -> None:
        """As `kill` does, or as a terminal does, to all processes of the session."""
        (os.killpg if to_all else os.kill)(self.process.pid, number)

    def left(self) -> list[str]:
        """What is there when it has ended and should not be."""
        end = time.monotonic() + 20
        while self.group() and time.monotonic() < end:
            time.sleep(0.02)
        parts = [name for name in os.listdir(self.folder) if name.endswith(".part")]
        return [*self.group(), *os.listdir(self.temporary), *parts]


@pytest.mark.parametrize(
    ("number", "to_all", "after"),
    [(signal.SIGINT, True, 0.0), (signal.SIGTERM, False, 1.0), (signal.SIGHUP, True, 0.3)],
)
def test_a_signal_while_a_worker_runs(tmp_path: Path, number: int, to_all: bool, after: float) -> None:
    command = Command(tmp_path, "verify", "endless.mlir")
    command.wait_for_worker()
    time.sleep(after)
    command.send(number, to_all=to_all)
    output = command.process.communicate(timeout=60)
    assert (command.process.returncode, output, command.left()) == (128 + number, (b"", b""), [])


def test_a_worker_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    command = Command(tmp_path, "verify", "endless.mlir")
    command.wait_for_worker()
    command.send(signal.SIGKILL, to_all=False)
    command.process.communicate(timeout=60)
    assert command.left() == []


@pytest.mark.parametrize("seed", range(max(4, int(os.environ.get("SHARDWRIGHT_FUZZ", "0")))))
def test_a_signal_at_any_moment(tmp_path: Path, seed: int) -> None:
    """While Python itself starts, its own handlers decide: then it ends by the signal, or with its own status."""
    rng = random.Random(seed)
    arguments = rng.choice(
        (["verify", "endless.mlir"], ["run", "endless.mlir"], ["partition", "endless.mlir", "-o", "o"])
    )
    number = rng.choice(SIGNALS)
    command = Command(tmp_path, *arguments)
    time.sleep(0.3 + rng.random() * 2)
    command.send(number, to_all=rng.random() < 0.5)
    out, err = command.process.communicate(timeout=120)
    assert command.left() == []
    if command.process.returncode == 0:
        assert arguments[0] == "partition"
    elif command.process.returncode != -number:
        assert (command.process.returncode, out, err) == (128 + number, b"", b"")


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As `nohup` and shells ask for."""
    command = Command(tmp_path, "verify", "endless.mlir", ignored=frozenset({signal.SIGHUP}))
    command.wait_for_worker()
    command.send(signal.SIGHUP, to_all=False)
    time.sleep(0.3)
    assert command.process.poll() is None
    command.send(signal.SIGTERM, to_all=False)
    assert command.process.wait(60) == 128 + signal.SIGTERM
    command.process.communicate()
    assert command.left() == []
