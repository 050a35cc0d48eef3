"""What docs/distributed.md says runs: its commands, its Python in two processes, and the ways into a cluster."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli_launch import EXAMPLES, LOSSES, approx, launched, steps

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "distributed.md").read_text()

BEFORE = """
import os
import tempfile
import numpy as np

os.chdir(__import__("sys").argv[1])
shape = (8, 4)
rows = batch = np.arange(32.0, dtype=np.float32).reshape(shape)
params = {"w": np.ones((4, 8), np.float32)}

def train_step(params, batch):
    return {"w": params["w"] - 0.01 * (batch.T @ (batch @ params["w"]))}
"""
AFTER = """
want = train_step(train_step({"w": np.ones((4, 8), np.float32)}, rows), rows)
np.testing.assert_allclose(whole["w"], train_step({"w": np.ones((4, 8), np.float32)}, rows)["w"], rtol=1e-5)
np.testing.assert_allclose(sw.gather(params)["w"], want["w"], rtol=1e-5)
np.testing.assert_allclose(sw.gather(step({"w": np.ones((4, 8), np.float32)}, rows))["w"], whole["w"], rtol=1e-5)
print("done")
"""


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def lines(start: str) -> list[str]:
    return [line for block in blocks("") for line in block.splitlines() if line.startswith(start)]


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu", **more}


def test_its_commands_work(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(EXAMPLES)
    commands = lines("shardwright ")
    assert len(commands) == 2
    printed = ""
    for line in commands:
        done = subprocess.run(
            line, shell=True, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        printed += done.stdout
    assert "2 processes of 4 devices each: equal to one process" in printed
    assert steps(printed) == approx({0: LOSSES[0]})


def test_its_python_runs_in_two_processes(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(BEFORE + "\n".join(blocks("python")) + AFTER)
    done = launched(script, "--processes", "2", "--", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def printed_by(commands: list[str], environments: list[dict[str, str]], folder: Path) -> list[str]:
    """What processes print that are started together; they must end well, and within two minutes."""
    (folder / "examples").symlink_to(EXAMPLES)
    started = [
        subprocess.Popen(line, shell=True, cwd=folder, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line, own in zip(commands, environments, strict=True)
    ]
    try:
        answers = [process.communicate(timeout=120) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), answers
    return [output.decode() for output, _ in answers]


def test_under_slurm_jax_finds_the_others(tmp_path: Path) -> None:
    """As `srun` starts it, by the variables that it sets; two tasks on one node."""
    [line] = lines("srun ")
    command = line[line.index("python ") :]
    port = free_port()
    told = {
        "JAX_COORDINATOR_PORT": str(port),
        "JAX_COORDINATOR_BIND_ADDRESS": f"127.0.0.1:{port}",
        "JAX_NUM_CPU_DEVICES": "4",
        "SLURM_JOB_ID": "42",
        "SLURM_STEP_NODELIST": "127.0.0.1",
        "SLURM_NTASKS": "2",
    }
    tasks = [environment(**told, SLURM_PROCID=str(task), SLURM_LOCALID=str(task)) for task in range(2)]
    first, second = printed_by([command] * 2, tasks, tmp_path)
    assert (steps(first), steps(second)) == (approx(LOSSES), {})
    assert (tmp_path / "saved" / "shardwright.json").exists()


def test_addresses_can_be_given(tmp_path: Path) -> None:
    port = free_port()
    given = [line for line in lines("python ") if "HOST:PORT" in line]
    commands = [line.replace("HOST:PORT", f"127.0.0.1:{port}") for line in given]
    told = environment(JAX_COORDINATOR_BIND_ADDRESS=f"127.0.0.1:{port}", JAX_NUM_CPU_DEVICES="4")
    first, second = printed_by(commands, [told] * 2, tmp_path)
    assert (steps(first), steps(second)) == (approx(LOSSES), {})


def test_the_options_that_it_names_are_those_of_the_example() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "distributed.py"), "--help"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    for option in re.findall(r" (--[a-z]+)", "\n".join([*lines("python "), lines("srun ")[0].partition("python ")[2]])):
        assert option in done.stdout


@pytest.mark.parametrize("link", re.findall(r"`((?:tests|examples)/[\w/]+\.py)`", PAGE))
def test_the_files_that_it_names_are_there(link: str) -> None:
    assert (ROOT / link).exists()
