"""Several processes of this machine that work together: started, watched, and ended as one.

They meet on a port of the loopback device, which is held for them before they start. Where one fails, all end, and what
is told is what the first to fail said: what the others say then is that they have lost it.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from shardwright.errors import ShardingError
from shardwright.process import python_child

__all__ = ["ADDRESS", "Failure", "ending", "last_lines", "launch"]

ADDRESS = "127.0.0.1"

_POLL = 0.05
"""Seconds between two looks at the processes."""
_AFTERMATH = 0.5
"""Seconds in which others may turn out to have failed before the one that was seen first."""
_STDERR_LINES = 12
_CHATTER = "[Gloo]"
"""How lines begin in which XLA's collectives tell that all is well."""


@dataclass(frozen=True)
class Failure:
    """The first process that failed.

    Attributes:
        number: Which one.
        status: Its exit status; `None` where all took too long.
    """

    number: int
    status: int | None


def launch(
    module: str,
    arguments: Sequence[str],
    count: int,
    folder: Path,
    *,
    environment: Mapping[str, str],
    timeout: float,
    shows: bool = False,
) -> Failure | None:
    """Run a module of this package in `count` processes until all have ended; none outlives this call or this process.

    Each is called with `arguments`, its number, their count, and the port of `ADDRESS` where they meet. What it prints
    goes to the file `NUMBER.stderr`; a process that knows why it fails says so in the file `NUMBER.error`.

    Arguments:
        module: Its name.
        arguments: What all of them are told first.
        count: How many.
        folder: Where the files go.
        environment: Of the processes.
        timeout: Seconds for all.
        shows: Whether what the first process prints goes to where this one prints.

    Returns:
        The first process that failed; nothing where all went well.

    Raises:
        OSError: one cannot be started.
    """
    deadline = time.monotonic() + timeout
    with _held_port() as port, ExitStack() as stack:
        started = []
        for number in range(count):
            stderr = stack.enter_context((folder / f"{number}.stderr").open("wb"))
            child = python_child(
                module,
                *arguments,
                str(number),
                str(count),
                str(port),
                environment=environment,
                stdin=subprocess.PIPE,  # it watches that, which closes when this process ends
                stdout=None if shows and number == 0 else stderr,
                stderr=stderr,
            )
            started.append(stack.enter_context(child))
        return _watch(started, folder, deadline)


def _watch(processes: Sequence[subprocess.Popen[bytes]], folder: Path, deadline: float) -> Failure | None:
    """Wait until all have ended well, or one has not."""
    while True:
        failed = _failed(processes)
        if failed:
            time.sleep(_AFTERMATH)  # so that one that says why is not outrun by one that lost it
            return _first(failed, _failed(processes), folder)
        if all(process.poll() == 0 for process in processes):
            return None
        if time.monotonic() > deadline:
            return Failure(next(number for number, process in enumerate(processes) if process.poll() is None), None)
        time.sleep(_POLL)


def _failed(processes: Sequence[subprocess.Popen[bytes]]) -> dict[int, int]:
    """The exit status of those that have failed so far, by number."""
    polled = {number: process.poll() for number, process in enumerate(processes)}
    return {number: status for number, status in polled.items() if status}


def _first(seen: Mapping[int, int], later: Mapping[int, int], folder: Path) -> Failure:
    """Who failed first: one that was killed, which says nothing; else the first that said why; else the first seen."""
    killed = [number for number, status in seen.items() if status == -signal.SIGKILL]
    reasons = {path: path.stat().st_mtime_ns for number in later if (path := folder / f"{number}.error").exists()}
    if killed:
        number = killed[0]
    elif reasons:
        number = int(min(reasons, key=lambda path: reasons[path]).stem)
    else:
        number = next(iter(seen))
    return Failure(number, later[number])


@contextmanager
def _held_port() -> Iterator[int]:
    """A free port of the loopback device, bound so that nobody else is given it, while a server may still listen."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            held.bind((ADDRESS, 0))
        except OSError as error:
            raise ShardingError(
                "processes of this machine have no port to meet on",
                cause=f"{ADDRESS}: {error.strerror or error}",
                remedy="allow connections on the loopback device, or run in one process",
            ) from None
        yield held.getsockname()[1]


def ending(status: int) -> str:
    """How a process ended that has this exit status: by itself, or by a signal."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"was ended by signal {-status}"


def last_lines(path: Path) -> str:
    """The last words of a process that are about what went wrong."""
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join([line for line in lines if not line.startswith(_CHATTER)][-_STDERR_LINES:])[-4000:]
