"""Processes that are copies are what those are that Python starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fork_server
from tests.fork_server import PROGRAMS, end_servers, forked_children

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands processes over")

PROBE = """
import json, os, sys
told = {name: os.environ.get(name) for name in ("XLA_FLAGS", "PYTEST_PROBE", "PYTHONPATH")}
print(json.dumps([sys.argv[1:], told, os.getcwd(), os.getppid(), "jax" in sys.modules]), flush=True)
print("heard", sys.stdin.read(), file=sys.stderr)
os.write(int(sys.argv[1]), b"passed")
sys.exit(int(sys.argv[2]))
"""
WAITING = "import sys; sys.stdin.read()"


@pytest.fixture(params=["copied", "started"])
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file to be written and run: as a copy, or as ever; there is room for its server, whatever was run before."""
    file = tmp_path / "program.py"
    monkeypatch.setattr(fork_server, "_SERVERS", {})
    if request.param == "copied":
        monkeypatch.setitem(PROGRAMS, str(file), ())
    with forked_children():
        yield file
    end_servers()


def is_copied(program: Path) -> bool:
    return str(program) in PROGRAMS


def test_a_copy_has_what_a_process_is_given(program: Path, tmp_path: Path) -> None:
    program.write_text(PROBE)
    reading, writing = os.pipe()
    environment = {**os.environ, "XLA_FLAGS": "--some", "PYTEST_PROBE": "there", "PYTHONPATH": "elsewhere"}
    done = subprocess.run(
        [sys.executable, str(program), str(writing), "7"],
        input="words",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        pass_fds=[writing],
        check=False,
    )
    os.close(writing)
    with open(reading) as passed:
        assert passed.read() == "passed"
    told = {"XLA_FLAGS": "--some", "PYTEST_PROBE": "there", "PYTHONPATH": "elsewhere"}
    assert json.loads(done.stdout) == [
        [str(writing), "7"],
        told,
        str(tmp_path),
        os.getpid(),
        is_copied(program),
    ]
    assert (done.returncode, done.stderr) == (7, "heard words\n")


def test_an_error_is_told_and_is_the_status(program: Path) -> None:
    program.write_text("raise ValueError('of its own')")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("ValueError: of its own\n")


def test_it_can_be_waited_for_and_killed(program: Path) -> None:
    program.write_text(WAITING)
    with subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE) as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL


def test_it_hears_that_its_input_is_closed(program: Path) -> None:
    program.write_text(WAITING)
    with subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def test_two_at_once_hold_nothing_of_each_other(program: Path) -> None:
    program.write_text(WAITING)
    commands = [[sys.executable, str(program)]] * 2
    first, second = (subprocess.Popen(command, stdin=subprocess.PIPE) for command in commands)
    with first, second:
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0


def test_what_a_copy_cannot_be_is_started(program: Path) -> None:
    program.write_text("import os; print(os.getsid(0) == os.getpid())")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, start_new_session=True, check=True
    )
    assert done.stdout == "True\n"


def test_another_environment_has_another_process_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "program.py"
    file.write_text("import jax; print(jax.config.jax_enable_x64)")
    monkeypatch.setitem(PROGRAMS, str(file), ())
    with forked_children():
        printed = [
            subprocess.run(
                [sys.executable, str(file)], env={**os.environ, "JAX_ENABLE_X64": wide}, capture_output=True, check=True
            )
            for wide in ("0", "1")
        ]
    assert [done.stdout for done in printed] == [b"False\n", b"True\n"]
