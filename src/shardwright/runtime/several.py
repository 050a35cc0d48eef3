"""A job, or a Python file, in several processes of this machine, each with its share of virtual CPU devices."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.process import DEFAULT_TIMEOUT
from shardwright.runtime.execute import environment_of, temporary_folder
from shardwright.runtime.jobs import Execution, Job, load_parts, save_jobs
from shardwright.runtime.launch import Failure, ending, last_lines, launch
from shardwright.runtime.pieces import put_together
from shardwright.words import counted

__all__ = ["check_share", "run_in_processes", "run_script"]


MEMBER = "shardwright.runtime.member"
SCRIPT = "shardwright.runtime.script"

_OTHERS = "the others were ended with it"


def check_share(devices: int, processes: int) -> int:
    """How many of the devices each process has.

    Raises:
        ShardingError: they cannot be shared out evenly.
    """
    if devices % processes:
        possible = [str(count) for count in range(2, devices + 1) if devices % count == 0]
        raise ShardingError(
            f"{counted(devices, 'device')} cannot be shared out among {counted(processes, 'process')}",
            cause="every process has as many devices as the others",
            remedy=f"take {' or '.join(possible)} processes" if possible else "give a mesh of more devices",
        )
    return devices // processes


def run_in_processes(job: Job, processes: int, *, timeout: float = DEFAULT_TIMEOUT) -> Execution:
    """Run a per-device job in several processes, which compile it and send each other what its collectives say.

    Arguments:
        job: The job.
        processes: How many; the devices are shared out among them, in order.
        timeout: Seconds, compilation included.

    Raises:
        ShardingError: devices that cannot be shared out, a process that failed, by its number and with what it said, or
            no place for temporary files.
    """
    environment = environment_of(check_share(job.devices, processes))
    with temporary_folder() as folder:
        save_jobs(folder, [job])
        failure = launch(MEMBER, [str(folder)], processes, folder, environment=environment, timeout=timeout)
        if failure is not None:
            raise _failed(failure, processes, folder, timeout)
        results, (compile_seconds, run_seconds) = load_parts(folder, processes, job)
    outputs, differences, copies = put_together(job, results)
    return Execution(outputs, differences, compile_seconds, run_seconds, copies)


def run_script(
    file: Path, arguments: Sequence[str], processes: int, devices: int, *, timeout: float = DEFAULT_TIMEOUT
) -> None:
    """Run a Python file in several processes whose CPU devices are joined, as `jax.distributed.initialize` does it.

    What the first one prints is shown.

    Arguments:
        file: The file; each process runs it as `__main__`.
        arguments: What it finds in `sys.argv` behind its name.
        processes: How many.
        devices: How many devices there are in all; they are shared out.
        timeout: Seconds.

    Raises:
        ShardingError: devices that cannot be shared out, or a process that failed, by its number and with what it said.
    """
    environment = environment_of(check_share(devices, processes))
    with temporary_folder() as folder:
        told = [str(folder), str(file), *arguments]
        failure = launch(SCRIPT, told, processes, folder, environment=environment, timeout=timeout, shows=True)
        if failure is not None:
            raise _failed(failure, processes, folder, timeout)


def _failed(failure: Failure, processes: int, folder: Path, timeout: float) -> ShardingError:
    name = f"process {failure.number} of {processes}"
    reason, words = folder / f"{failure.number}.error", last_lines(folder / f"{failure.number}.stderr")
    told = f"; its last words:\n{words}" if words else ""
    if reason.exists():
        return ShardingError(
            f"{name} failed: {reason.read_text()}",
            cause=_OTHERS + told,
            remedy="run it in one process, to see whether it fails there too",
        )
    if failure.status is None:
        return ShardingError(
            f"running the program in {counted(processes, 'process')} took longer than {timeout:g} seconds",
            cause=f"{name} was still at it{told}",
            remedy="allow more time (--timeout, timeout=), or run a smaller program",
        )
    is_killed = failure.status == -signal.SIGKILL
    return ShardingError(
        f"{name} {ending(failure.status)}",
        cause=_OTHERS + told,
        remedy="if nobody ended it, memory ran out: run a smaller program, or in fewer processes"
        if is_killed
        else "change what its last words name, or run it in one process, to see whether it fails there too",
    )
