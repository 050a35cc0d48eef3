"""A command as a process: its standard streams, the signals that end it, and what it leaves behind then: nothing.

Everything here is about the whole process, so it is for commands only; a library leaves streams and signals alone.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import subprocess

__all__ = [
    "DEFAULT_TIMEOUT",
    "children",
    "finish_output",
    "forget",
    "hold_output",
    "prepare",
    "python_child",
    "remove_folder",
    "script_child",
    "undisturbed",
    "run",
    "unfinished",
    "write_descriptor",
]

DEFAULT_TIMEOUT = 600.0
"""Seconds after which a process that runs a program for this one is given up."""

children: set[int] = set()
"""The processes that work for this one, which end with it."""

unfinished: set[Path] = set()
"""Files that are half written, and folders for the time being; they go with this process."""

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_SHOW_CURSOR = b"\r\x1b[2K\x1b[?25h"


class _HeldOutput(io.TextIOWrapper):
    """Standard output that is written when the answer is whole, by `finish_output`.

    A `write` of Python's own to a pipe or a full disk may take half of the text and tell nobody.
    """

    def __init__(self, descriptor: int | None, encoding: str) -> None:
        self.held = io.BytesIO()
        self.descriptor = descriptor
        super().__init__(self.held, encoding=encoding, errors="replace", write_through=True)

    def isatty(self) -> bool:
        """Whether the text will be seen on a terminal."""
        return self.descriptor is not None and os.isatty(self.descriptor)

    def finish(self) -> None:
        """Write all that is held."""
        data = self.held.getvalue()
        self.held.seek(0)
        self.held.truncate()
        if self.descriptor is not None:
            write_descriptor(self.descriptor, data)
        elif data:
            raise OSError(errno.EBADF, "standard output is closed")


class _Errors(io.FileIO):
    """Standard error; that it cannot be written is nothing to be told, and changes no exit status."""

    def write(self, data: Any, /) -> int:
        """Write all of `data` if it can be done."""
        with suppress(OSError):
            write_descriptor(self.fileno(), bytes(data))
        return len(data)


def prepare() -> None:
    """Make this the process of a command: signals end it without a word, and it has all standard streams."""
    for name in _ENDING:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and shells ask for
            signal.signal(number, _end)
    _open_standard_streams()


def run(command: Callable[[], object]) -> NoReturn:
    """Run a command and end this process at once, with the status that it exits with.

    Freeing all that it holds, object by object, took Python and MLIR a third of the time of a small command.
    """
    gc.disable()  # see `memo.uncollected`
    status = 0
    try:
        command()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    os._exit(status)  # nothing is left to flush: an answer has been written or refused, and errors are not buffered


def hold_output() -> None:
    """Hold back what is printed until `finish_output`."""
    if sys.stdout is None:
        sys.stdout = _HeldOutput(None, "utf-8")
        return
    with suppress(OSError, ValueError):  # no descriptor: a stream that somebody else put there
        sys.stdout = _HeldOutput(sys.stdout.fileno(), sys.stdout.encoding)


def finish_output() -> None:
    """Write what was held back.

    Raises:
        OSError: not all of it could be written.
    """
    if isinstance(sys.stdout, _HeldOutput):
        sys.stdout.finish()
    elif sys.stdout is not None:
        sys.stdout.flush()


def forget(descriptor: int) -> None:
    """Let a standard stream lead nowhere, so that Python does not try at its end what could not be written now."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def write_descriptor(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however little a write takes.

    Raises:
        OSError: not all of it could be written.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])


def remove_folder(folder: Path) -> None:
    """Remove a folder of files, if it is there."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            path.unlink(missing_ok=True)
        folder.rmdir()


def _open_standard_streams() -> None:
    """Give closed standard streams a descriptor: the next file that is opened would get it, and what is printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            forget(descriptor)
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = io.TextIOWrapper(_Errors(2, "wb", closefd=False), encoding, "replace", write_through=True)


@contextmanager
def python_child(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None, **streams: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A module of this package, run in a process of its own that ends with this block and with this process.

    Whatever the current folder holds, the process imports nothing from there.

    Arguments:
        module: Its name.
        *arguments: What it is told.
        environment: In place of that of this process.
        **streams: As for `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    given = dict(os.environ if environment is None else environment)
    given["PYTHONPATH"] = _python_path(given.get("PYTHONPATH", ""))
    with _child([sys.executable, "-P", "-m", module, *arguments], env=given, **streams) as child:
        yield child


@contextmanager
def script_child(python: str, script: Path, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A file run by any Python, alone: it imports what is installed there. It ends as a `python_child` does.

    Raises:
        OSError: it cannot be started.
    """
    with _child([python, "-I", str(script)], **streams) as child:
        yield child


@contextmanager
def _child(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    import subprocess  # only who starts processes needs it

    with undisturbed():
        child = subprocess.Popen(command, **options)
        children.add(child.pid)
    with child:
        try:
            yield child
        finally:
            child.kill()
            child.wait()
            children.discard(child.pid)


def _python_path(given: str) -> str:
    """`PYTHONPATH` for a child: the one given, after the folder of this package where it is not installed.

    An empty entry would be the current folder, in which a user's `json.py` may lie.
    """
    import sysconfig  # only who starts processes needs it

    source = str(Path(__file__).parents[1])
    installed = source in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    parts = [*([] if installed else [source]), *given.split(os.pathsep)]
    return os.pathsep.join(part for part in parts if part)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off the signals that end a command, so that a child that is started is known before one is heeded."""
    _put_off.append([])
    try:
        yield
    finally:
        for number in _put_off.pop():
            signal.raise_signal(number)


_put_off: list[list[int]] = []
"""The signals that have come since `undisturbed` began."""


def _end(number: int, frame: object) -> None:
    """End at once, as a shell reports a process that the signal ended; raised, it could be lost in a callback."""
    if _put_off:
        _put_off[-1].append(number)
        return
    for child in list(children):
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    for path in list(unfinished):
        if path.is_dir():
            remove_folder(path)
        else:
            with suppress(OSError):
                path.unlink()
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
    os._exit(128 + number)
