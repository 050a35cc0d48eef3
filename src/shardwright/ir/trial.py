"""What C++ does not survive is tried first in a copy of the process, so that this one goes on and says what happened.

Some of MLIR's passes end the process on modules that its verifier accepts. The copy is a `fork`: it has the modules and
handles of this process, and nothing that it changes is seen here.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from shardwright.words import bytes_text

__all__ = ["ended_by"]

_SECONDS = 10.0
"""How long an action may take."""
_MEMORY = 2 << 30
"""How much memory it may take beside what the process has, in bytes; or four times what that has, if it is more."""
_FINE, _FULL = 0, 77
"""What the copy exits with: all went well, or raised; or there was no more memory."""


def ended_by(action: Callable[[], object]) -> str:
    """How `action` would end this process, in words; nothing if it returns or raises an exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the copy does not have: the action takes none
        most = _most_memory()
        child = os.fork()
    if child == 0:
        _try(action, most)
    try:
        return _in_words(_status(child), most)
    finally:
        _end(child)


def _try(action: Callable[[], object], most: int | None) -> None:
    """In the copy: what is printed is lost, and nothing is tidied up that belongs to this process."""
    try:
        faulthandler.disable()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        if most is not None:
            _limit_memory(most)
        action()
    except MemoryError:
        os._exit(_FULL)
    except BaseException:  # it is raised again where it can be told
        os._exit(_FINE)
    os._exit(_FINE)


def _most_memory() -> int | None:
    """How much more memory than this process the copy may take, in bytes; nothing where no system tells what it has."""
    pages = _pages()
    return max(_MEMORY, 4 * pages[1] * os.sysconf("SC_PAGE_SIZE")) if pages else None


def _pages() -> tuple[int, int] | None:
    """How many pages of memory this process has addresses for, and how many it has."""
    try:
        addressed, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return None
    return int(addressed), int(resident)


def _limit_memory(most: int) -> None:
    """What asks for more than `most` bytes gets none, and C++ that gets none ends."""
    import resource  # not everywhere, as `fork` is not

    pages = _pages()
    whole = (pages[0] * os.sysconf("SC_PAGE_SIZE") if pages else 0) + most
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (whole, whole))


def _status(child: int) -> int | None:
    """The exit status of the copy; nothing if it takes too long."""
    start, pause = time.monotonic(), 0.0005
    while time.monotonic() - start < _SECONDS:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return None


def _end(child: int) -> None:
    """End the copy if it is still there."""
    try:
        if os.waitpid(child, os.WNOHANG)[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    except ChildProcessError:
        return


def _in_words(status: int | None, most: int | None) -> str:
    if status is None:
        return f"it takes more than {_SECONDS:g} seconds"
    if status == _FINE:
        return ""
    if status == _FULL:
        return f"it takes more than {bytes_text(most)} of memory" if most else "it takes too much memory"
    return f"it ends the process: {signal.Signals(-status).name if status < 0 else f'status {status}'}"
