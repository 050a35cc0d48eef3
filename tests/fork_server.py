"""Python processes that begin with JAX imported: most of what a process took to start, a second of processor time.

    with forked_children():
        subprocess.run([sys.executable, "-P", "-m", "shardwright.runtime.worker", …])  # begins as a copy

Within, commands that are Python programs of `PROGRAMS` are copies of a process that has imported what they need and
done nothing else: XLA reads its flags and finds its devices in the copy. A copy is a process of its own, with the
environment, the descriptors and the arguments that the command has, and a child of the one that asked for it. All
other commands are started as ever, and so is everything where processes cannot be handed over (only Linux can).

The file is also the program that is copied.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import gc
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

__all__ = ["PROGRAMS", "end_servers", "forked_children"]

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {
    "shardwright.runtime.worker": ("shardwright.runtime.xla",),
    "tests.oracles.xla": ("jax", "tests.oracles.hlo"),
    "tests.oracles.xla_many": ("jax", "tests.oracles.hlo_work"),
    str(ROOT / "tests/oracles/shardy.py"): ("jaxlib.mlir._mlir_libs._jax_mlir_ext", "jaxlib.mlir.dialects.sdy"),
}
"""Modules, as after `-m`, and files that may be copies, and what is imported for each of them before."""
_OWN = ("PYTEST_", "XLA_FLAGS", "TMPDIR", "SHARDWRIGHT_")
"""How variables begin that are read when they are needed, not when something is imported: a copy has its own."""
_MOST_SERVERS = 4
"""How many processes to be copied there are at most, one for each kind of environment."""
_IS_SUBREAPER = 36
"""Of `prctl`: that orphans below this process become its children."""
_LENGTH = 8
_BEYOND = 256
"""Descriptors from here on are in nobody's way."""


class _Server:
    """The process that is copied, for one kind of environment."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.lock = threading.Lock()
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env={**environment, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def copy(self, order: dict[str, Any], descriptors: Sequence[int]) -> int:
        """The number of a copy, a child of this process, that does as it is told."""
        text = json.dumps(order).encode()
        with self.lock, _adopting():
            socket.send_fds(self.socket, [len(text).to_bytes(_LENGTH)], descriptors)
            self.socket.sendall(text)
            return int.from_bytes(_received(self.socket, _LENGTH))

    def close(self) -> None:
        """End it; its copies go on."""
        self.socket.close()
        self.process.wait()


_ASKED = [*inspect.signature(subprocess.Popen._execute_child).parameters][2:]  # type: ignore[attr-defined]
"""What `subprocess` calls all that a process is started with, behind its arguments."""
_USUAL = {"preexec_fn": None, "shell": False, "gid": None, "gids": None, "uid": None, "umask": -1}
_USUAL |= {"start_new_session": False, "process_group": -1}
"""What a copy cannot be given otherwise."""


class _Popen(subprocess.Popen[Any]):
    """A process that is a copy, if it can be one.

    Everything else that `subprocess` does for a process (pipes, waiting, time limits) stays as it is, so what is
    replaced is the one method that starts it. It is private, and type stubs do not have it: hence what is ignored here.
    """

    def _execute_child(self, args: Any, *rest: Any) -> None:
        asked = dict(zip(_ASKED, rest, strict=True))
        environment = dict(os.environ if asked["env"] is None else asked["env"])
        program = _program(args) if all(asked[name] == usual for name, usual in _USUAL.items()) else None
        server = self._server(environment) if program else None
        if server is None:
            super()._execute_child(args, *rest)  # type: ignore[misc]
            return
        ends = [asked["p2cread"], asked["c2pwrite"], asked["errwrite"]]
        order = {
            "arguments": list(map(os.fspath, args)),
            "program": program,
            "environment": environment,
            "cwd": os.fspath(asked["cwd"] or os.getcwd()),
            "as": [0, 1, 2, *asked["pass_fds"]],
        }
        standard = [own if end < 0 else end for own, end in enumerate(ends)]
        self.pid = server.copy(order, [*standard, *asked["pass_fds"]])
        self._child_created = True
        self._close_pipe_fds(*rest[_ASKED.index("p2cread") :][:6])  # type: ignore[attr-defined]

    def _server(self, environment: dict[str, str]) -> _Server | None:
        kind = frozenset(item for item in environment.items() if not item[0].startswith((*_OWN, "PYTHONPATH")))
        if kind not in _SERVERS:
            if len(_SERVERS) == _MOST_SERVERS:
                return None
            _SERVERS[kind] = _Server(dict(kind))
        return _SERVERS[kind]


_SERVERS: dict[frozenset[tuple[str, str]], _Server] = {}


@contextmanager
def forked_children() -> Iterator[None]:
    """Let `subprocess` copy a process for each of `PROGRAMS`, where it can."""
    if sys.platform != "linux":
        yield
        return
    with mock.patch.object(subprocess, "Popen", _Popen):
        yield


def end_servers() -> None:
    """End the processes that were copied."""
    while _SERVERS:
        _SERVERS.popitem()[1].close()


def _program(arguments: Any) -> str | None:
    """The program of a command, if it is one of Python's that may be a copy."""
    if isinstance(arguments, (str, bytes, os.PathLike)):
        return None
    head, *rest = map(os.fspath, arguments)
    rest = rest[rest[:1] == ["-P"] :]
    rest = rest[rest[:1] == ["-m"] :]
    return rest[0] if head == sys.executable and rest[:1] and rest[0] in PROGRAMS else None


@contextmanager
def _adopting() -> Iterator[None]:
    """Let orphans below this process become its children."""
    control = ctypes.CDLL(None, use_errno=True).prctl
    if control(_IS_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    try:
        yield
    finally:
        control(_IS_SUBREAPER, 0, 0, 0, 0)


def _received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError("the process that is copied has ended")
        data += more
    return data


# --- in the process that is copied


def _serve(connection: socket.socket) -> None:
    """Make copies until nobody is there to ask for them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for names in PROGRAMS.values():
        for name in names:
            import_module(name)
    gc.freeze()
    while True:
        head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH, 64)
        if not head:
            return
        order = json.loads(_received(connection, int.from_bytes(head)))
        connection.sendall(_copied(order, descriptors, connection).to_bytes(_LENGTH))
        for descriptor in descriptors:
            os.close(descriptor)


def _copied(order: dict[str, Any], descriptors: list[int], connection: socket.socket) -> int:
    """The number of a copy that is an orphan already: the one between has ended."""
    reading, writing = os.pipe()
    between = _fork()
    if between == 0:
        own = os.getpid()
        copy = _fork()
        if copy == 0:
            while os.getppid() == own:
                time.sleep(0.0005)
            os.close(reading)
            os.close(writing)
            connection.close()
            _become(order, descriptors)
        os.write(writing, array.array("q", [copy]).tobytes())
        os._exit(0)
    os.close(writing)
    copy = array.array("q", os.read(reading, 8))[0]
    os.close(reading)
    os.waitpid(between, 0)
    return copy


def _fork() -> int:
    """Fork, whatever JAX says of its threads: it has none before it is used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _become(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Run the program as Python does that is started for it."""
    status = 1
    try:
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _BEYOND) for descriptor in descriptors]
        for descriptor in descriptors:
            os.close(descriptor)
        for descriptor, number in zip(high, order["as"], strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["environment"])
        program = order["program"]
        sys.argv = order["arguments"][order["arguments"].index(program) :]
        if program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
