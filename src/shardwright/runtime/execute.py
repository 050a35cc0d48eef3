"""Running modules on virtual CPU devices in a subprocess, whatever this process has and whatever XLA makes of them."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.memo import current_session
from shardwright.mesh import Mesh
from shardwright.process import DEFAULT_TIMEOUT, python_child, remove_folder, unfinished
from shardwright.runtime.arrays import Array
from shardwright.runtime.calls import RAISED, answering
from shardwright.runtime.jobs import NO_ROOM, Execution, Job, load_results, save_jobs
from shardwright.runtime.launch import ending, last_lines
from shardwright.sharding import TensorSharding

__all__ = [
    "Execution",
    "Job",
    "WorkerDied",
    "environment_of",
    "execute_local",
    "execute_unsharded",
    "run_jobs",
    "temporary_folder",
    "try_first",
    "try_jobs",
]

_OTHER_FOLDER = "make room there, or set TMPDIR to a folder that exists, can be written and has room"


class WorkerDied(ShardingError):
    """A program has ended the process that ran it, or was not done in time."""


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
    """Run jobs as `run_jobs`, giving the error of each that fails.

    Raises:
        ShardingError: there is no place for temporary files, or no process can be started.
    """
    with temporary_folder() as folder:
        save_jobs(folder, jobs)
        devices = max((job.devices for job in jobs), default=1)
        with answering([job.callbacks for job in jobs]) as pipe:
            status = _work(folder, devices, timeout, pipe)
        results: list[Execution | ShardingError] = []
        died: WorkerDied | None = None
        for job, result in zip(jobs, load_results(folder, len(jobs)), strict=True):
            if isinstance(result, Execution):
                _survivors()[_key(job)] = True
                results.append(result)
            elif result is not None:
                remedy = "give inputs with which it does not (inputs=), or change it" if RAISED in result else ""
                results.append(ShardingError(result, remedy=remedy))
            elif died is None:
                died = _died(job, status, folder, timeout)
                results.append(died)
            else:
                results.append(WorkerDied("the program was not run", cause=f"before it, {died.diagnostic.message}"))
        return results


def try_first(module: str, mesh: Mesh, in_shardings: Sequence[TensorSharding], in_types: Sequence[TensorType]) -> None:
    """Compile and run a per-device module on zeros in a process of its own, to know whether a process survives it.

    What was run before in this session is not tried again. That XLA refuses it is no reason not to go on: it will say
    so itself.

    Raises:
        WorkerDied: no process survives it.
    """
    job = Job(module, (), mesh, tuple(in_shardings), zeros=tuple(in_types))
    if _key(job) not in _survivors():
        (result,) = try_jobs([job])
        if isinstance(result, WorkerDied):
            raise result


def _survivors() -> dict[object, object]:
    """The modules, and meshes, that ran to their end in this session."""
    return current_session().table(__name__)


def _key(job: Job) -> object:
    return hashlib.sha256(job.module.encode()).digest(), job.mesh


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for as long as it is used.

    Raises:
        ShardingError: it cannot be made, or what is to be handed over does not fit.
    """
    place = os.environ.get("TMPDIR") or tempfile.gettempdir()
    folder = Path(place, f"shardwright-{os.urandom(8).hex()}")
    unfinished.add(folder)
    try:
        folder.mkdir(mode=0o700)
        yield folder
    except OSError as error:
        raise ShardingError(
            f"the program cannot be handed to the process that runs it: {error.strerror or error}",
            location=place,
            cause="programs, inputs and results go through files in the folder for temporary files",
            remedy=_OTHER_FOLDER,
        ) from None
    finally:
        remove_folder(folder)
        unfinished.discard(folder)


def _work(folder: Path, devices: int, timeout: float, pipe: tuple[int, ...]) -> int | None:
    """The exit status of the worker on `folder`, which asks by `pipe`; `None` where it took too long."""
    with (
        (folder / "stderr").open("wb") as stderr,
        python_child(
            "shardwright.runtime.worker",
            str(folder),
            *map(str, pipe),
            environment=environment_of(devices),
            pass_fds=pipe,
            stdin=subprocess.PIPE,  # it watches that, which closes when this process ends
            stdout=stderr,
            stderr=stderr,
        ) as worker,
    ):
        try:
            return worker.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


def _died(job: Job, status: int | None, folder: Path, timeout: float) -> WorkerDied:
    """What to say of a job of which a worker left no result."""
    lines = last_lines(folder / "stderr")
    cause = f"it is {_which(job)}" + (f"; its last words:\n{lines}" if lines else "")
    if status is None:
        return WorkerDied(
            f"running the program took longer than {timeout:g} seconds",
            cause=cause,
            remedy="allow more time (--timeout, timeout=), or run a smaller program",
        )
    if status == NO_ROOM:
        return WorkerDied(
            "the results of the program cannot be written",
            location=str(folder.parent),
            cause=cause,
            remedy=_OTHER_FOLDER,
        )
    if status == -signal.SIGKILL:
        remedy = "if nobody ended it, memory ran out: run a smaller program, or on fewer devices"
    else:
        remedy = "change what its last words name, or run parts of the program to find what XLA fails on"
    return WorkerDied(f"the process that runs the program {ending(status)}", cause=cause, remedy=remedy)


def _which(job: Job) -> str:
    """Which program a job is."""
    if job.mesh is None:
        return "the program for one device"
    if job.partitioned:
        return f"the annotated program, which XLA partitions to hold results against, on {job.devices} devices"
    return f"the per-device program, on {job.devices} devices"


def environment_of(devices: int) -> dict[str, str]:
    """This environment with so many virtual CPU devices and no compilation cache.

    LAPACK's kernels in jaxlib share a batch out among the threads that programs of devices run on, and wait for it on
    one of them: where every device waits so, nobody is left to do the rest. So there are more threads than devices.
    """
    flags = [
        flag
        for flag in os.environ.get("XLA_FLAGS", "").split()
        if not flag.startswith("--xla_force_host_platform_device_count")
    ]
    flags.append(f"--xla_force_host_platform_device_count={devices}")
    threads = os.environ.get("NPROC", "")  # how XLA is told of them
    spare = int(threads) if threads.isdecimal() else os.cpu_count() or 1
    return {
        **os.environ,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_PLATFORMS": "cpu",
        "NPROC": str(2 * devices + spare),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "XLA_FLAGS": " ".join(flags),
    }
