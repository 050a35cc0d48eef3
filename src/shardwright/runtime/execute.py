"""Running modules on virtual CPU devices in a subprocess, whatever this process has and whatever XLA makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.runtime.arrays import Array
from shardwright.runtime.jobs import Execution, Job, load_results, save_jobs
from shardwright.sharding import TensorSharding

__all__ = ["Execution", "Job", "execute_local", "execute_unsharded", "run_jobs", "try_jobs"]

DEFAULT_TIMEOUT = 600.0
"""Seconds after which a worker is given up."""

_STDERR_LINES = 12


def execute_unsharded(
    module: str, inputs: Sequence[Array], *, timeout: float = DEFAULT_TIMEOUT, in_process: bool = False
) -> list[Array]:
    """Run a module written for one device.

    Arguments:
        module: MLIR text.
        inputs: One array an argument.
        timeout: Seconds, compilation included.
        in_process: Use this process's jax instead of a subprocess. XLA may abort it.

    Raises:
        ShardingError: the module cannot be compiled or run, or takes too long.
    """
    return list(_one(Job(module, tuple(inputs)), timeout, in_process).outputs)


def execute_local(
    module: str,
    mesh: Mesh,
    in_shardings: Sequence[TensorSharding],
    out_shardings: Sequence[TensorSharding],
    inputs: Sequence[Array],
    out_types: Sequence[TensorType],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    in_process: bool = False,
) -> Execution:
    """Run a per-device module (see `localize`) on one virtual CPU device per position of the mesh.

    Arguments:
        module: MLIR text.
        mesh: Which device runs which position.
        in_shardings: How each argument is cut from its global input.
        out_shardings: How each global output is put together.
        inputs: Global arrays.
        out_types: Global types of the results.
        timeout: Seconds, compilation included.
        in_process: Use this process's jax, which must have as many devices.

    Returns:
        Global outputs, and which devices hold different copies of what should be one value.

    Raises:
        ShardingError: the module cannot be compiled or run, or takes too long.
    """
    job = Job(module, tuple(inputs), mesh, tuple(in_shardings), tuple(out_shardings), tuple(out_types))
    return _one(job, timeout, in_process)


def _one(job: Job, timeout: float, in_process: bool) -> Execution:
    if in_process:
        from shardwright.runtime.xla import run_job

        return run_job(job)
    return run_jobs([job], timeout=timeout)[0]


def run_jobs(jobs: Sequence[Job], *, timeout: float = DEFAULT_TIMEOUT) -> list[Execution]:
    """Run jobs one after the other in one subprocess that has enough devices for each.

    Raises:
        ShardingError: the first job that failed, and why.
    """
    executions = []
    for result in try_jobs(jobs, timeout=timeout):
        if isinstance(result, ShardingError):
            raise result
        executions.append(result)
    return executions


def try_jobs(jobs: Sequence[Job], *, timeout: float = DEFAULT_TIMEOUT) -> list[Execution | ShardingError]:
    """Run jobs as `run_jobs`, giving the error of each that fails."""
    with tempfile.TemporaryDirectory(prefix="shardwright-") as name:
        folder = Path(name)
        save_jobs(folder, jobs)
        said = _work(folder, max((job.devices for job in jobs), default=1), timeout)
        results: list[Execution | ShardingError] = []
        for result in load_results(folder, len(jobs)):
            if isinstance(result, Execution):
                results.append(result)
            else:
                results.append(ShardingError(result) if result is not None else said)
    return results


def _work(folder: Path, devices: int, timeout: float) -> ShardingError:
    """Run the worker on `folder`; what to say of a job of which it left no result."""
    command = [sys.executable, "-m", "shardwright.runtime.worker", str(folder)]
    with (folder / "stderr").open("wb") as stderr:
        try:
            status = subprocess.run(
                command, env=_environment(devices), stdout=stderr, stderr=stderr, timeout=timeout, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return ShardingError(
                f"running the program took longer than {timeout:g} seconds",
                cause=_last_lines(folder / "stderr"),
                remedy="allow more time, or run a smaller program",
            )
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return ShardingError(f"the process that runs the program {how}", cause=_last_lines(folder / "stderr"))


def _environment(devices: int) -> dict[str, str]:
    """This environment with so many virtual CPU devices and no compilation cache."""
    flags = [
        flag
        for flag in os.environ.get("XLA_FLAGS", "").split()
        if not flag.startswith("--xla_force_host_platform_device_count")
    ]
    flags.append(f"--xla_force_host_platform_device_count={devices}")
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
    return {
        **os.environ,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": path,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "XLA_FLAGS": " ".join(flags),
    }


def _last_lines(path: Path) -> str:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-_STDERR_LINES:])[-4000:]
