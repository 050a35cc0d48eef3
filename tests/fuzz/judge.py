"""Gives a case to its command as a user's shell would, and says what is wrong with what comes of it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from shardwright.cli.command import main as shardwright
from shardwright.errors import ShardingError
from shardwright.ir.context import load_module
from shardwright.notation.conversion import as_generic, open_module
from shardwright.opt.command import main as shardwright_opt
from shardwright.stage import STAGES
from tests.fuzz.case import Case
from tests.fuzz.commands import FILE, OUTPUT

__all__ = ["Verdict", "judged"]

_MAINS: dict[str, Callable[[], None]] = {
    "shardwright": shardwright,
    "shardwright-opt": shardwright_opt,
    "python": lambda: exec(sys.argv[2]),  # for tests of what is noticed
}
_ABOUT_A_MESH = re.compile(r"on mesh .*, which the text does not say\n")
_INSIDES = re.compile(r"Traceback \(most recent|object at 0x|<class '|mistake in shardwright|LLVM ERROR")
_BEFORE = b"what was there before\n"
_RUNNING = ("run", "verify")
_UNREAD = ("-mlir-print-debuginfo", "-mlir-pretty-debuginfo", "-verify-each=false")
"""Flags after which the output of shardwright-opt need not be read again: locations for people are no MLIR."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case.

    Attributes:
        status: The exit status.
        loads: Whether the module is read without complaint.
        seconds: Time of the processor.
        kilobytes: Most memory beyond what was in use before.
        problem: What is wrong, if anything; its first line tells problems apart.
    """

    status: int
    loads: bool
    seconds: float
    kilobytes: int
    problem: str = ""

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def judged(case: Case) -> Verdict:
    """Run a case in this process, in the current folder, which is emptied first."""
    _clear()
    Path(FILE).write_bytes(case.content)
    had_output = len(case.content) % 2 == 0
    if had_output:
        Path(OUTPUT).write_bytes(_BEFORE)
    before, start = _memory(reset=True), time.process_time()
    status, out, err, raised = _called(case.command)
    seconds, kilobytes = time.process_time() - start, _memory() - before
    problem = raised or _wrong(case, status, out, err, had_output)
    loads = _loads(case.content)
    return Verdict(status, loads, seconds, kilobytes, problem)


def _clear() -> None:
    for path in Path().iterdir():
        if path.name in ("stdout", "stderr"):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    Path("tmp").mkdir()


def _memory(*, reset: bool = False) -> int:
    """The most memory since the last reset, in kilobytes."""
    if reset:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    match = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(match[1]) if match else 0


def _called(command: tuple[str, ...]) -> tuple[int, bytes, str, str]:
    """Exit status, standard output and error, and the traceback if an exception got out."""
    saved, streams = os.dup(1), (sys.stdout, sys.stderr, sys.stdin, sys.argv)
    saved_err = os.dup(2)
    raised, status = "", 0
    with open("stdout", "w+b") as out, open("stderr", "w+b") as err, open(os.devnull) as nothing:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(n, "w", closefd=False), "utf-8") for n in (1, 2))
        sys.stdin, sys.argv = nothing, list(command)
        try:
            _MAINS[command[0]]()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            raised, status = _told(error), 1
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            sys.stdout, sys.stderr, sys.stdin, sys.argv = streams
            os.dup2(saved, 1)
            os.dup2(saved_err, 2)
            os.close(saved)
            os.close(saved_err)
        return status, _content(out), _content(err).decode(errors="replace"), raised


def _content(file: io.BufferedRandom) -> bytes:
    file.seek(0)
    return file.read()


def _told(error: BaseException) -> str:
    """An exception: its kind and where it was raised, then all of it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "shardwright" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {where}\n{''.join(traceback.format_exception(error))[-6000:]}"


def _wrong(case: Case, status: int, out: bytes, err: str, had_output: bool) -> str:
    """What is wrong with an answer, or nothing."""
    insides = _INSIDES.search(err) or _INSIDES.search(out.decode(errors="replace"))
    if insides:
        return f"shows {insides[0]!r}\n{err[-3000:]}"
    if os.listdir("tmp"):
        return f"leaves temporary files\n{os.listdir('tmp')}"
    known = {FILE, "tmp", "stdout", "stderr", "dumps", *([OUTPUT] if had_output else [])}
    left = sorted(set(os.listdir()) - known - ({OUTPUT, "tiles.svg", "stages"} if status == 0 else set()))
    if left == ["stages"] and case.command[1] == "run" and len(os.listdir("stages")) == len(STAGES):
        left = []  # what was run, whole, though it could not be run or differs
    if left:
        return f"leaves {'a part' if any('part' in name for name in left) else 'files'} with status {status}\n{left}\n{err[-2000:]}"
    return _wrong_failure(case, status, out, err, had_output) if status else _wrong_success(case, out, err)


def _wrong_failure(case: Case, status: int, out: bytes, err: str, had_output: bool) -> str:
    if status != 1:
        return f"exit status {status}\n{err[-2000:]}"
    if case.command[1] in _RUNNING and out and not err:
        return f"{case.command[1]} differs\n{out.decode(errors='replace')[-3000:]}"
    if out:
        return f"writes to standard output and fails\n{err[-2000:]}"
    if had_output and Path(OUTPUT).read_bytes() != _BEFORE:
        return "replaces the output and fails\n" + err[-2000:]
    if "error: " not in err:
        return f"fails without a diagnostic\n{err[-2000:]}"
    dumps = any("print-ir" in word for word in case.command)
    if not dumps and len(err) > 3 * len(case.content) + 50_000:
        return f"a diagnostic of {len(err)} letters\n{err[:2000]}"
    return ""


def _wrong_success(case: Case, out: bytes, err: str) -> str:
    is_opt = case.command[0] == "shardwright-opt"
    if err and not is_opt and not _ABOUT_A_MESH.fullmatch(err):
        return f"success, and prints to standard error\n{err[-2000:]}"
    if is_opt and re.search(r"(?m)^\S*(?:: )?error: ", err):
        return f"success, and prints an error\n{err[-2000:]}"
    written = Path(OUTPUT).read_bytes() if "-o" in case.command and OUTPUT in case.command else None
    try:
        if "--json" in case.command and case.command[0] == "shardwright":
            json.loads(out)
        if case.command[1] in ("propagate", "partition", "convert") and FILE in case.command:
            _check_module(case, out if written is None else written)
        elif is_opt:
            _check_passed(case, out if written is None else written)
    except (ShardingError, ValueError) as error:
        shown = (out if written is None else written).decode(errors="replace")
        name = case.command[0] if is_opt else case.command[1]
        return f"{name} writes what cannot be read\n{error}\n{shown[:3000]}"
    return ""


def _check_module(case: Case, printed: bytes) -> None:
    if not (printed.startswith(b"{") and "--json" in case.command):
        try:
            open_module(printed.decode())
        except ShardingError as error:
            if not error.diagnostic.message.count("two shardings have no common mesh"):  # what mhlo cannot say
                raise


def _check_passed(case: Case, printed: bytes) -> None:
    if any(flag in case.command for flag in _UNREAD) or not printed.strip():
        return
    chunks = printed.split(b"// -----\n") if "-split-input-file" in case.command else [printed]
    for chunk in chunks:
        load_module(chunk if chunk.startswith(b"ML\xefR") else as_generic(chunk.decode()))


def _loads(content: bytes) -> bool:
    try:
        open_module(content if content.startswith(b"ML\xefR") else content.decode())
    except (ShardingError, UnicodeDecodeError):
        return False
    return True
