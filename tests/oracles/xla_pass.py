"""What a pass of XLA takes: processor time by its own log, with no dump written.

XLA logs when each pass begins and ends, to the microsecond, if it is asked to. A thread beside the compilation notes,
every few milliseconds, how much processor time the process has used, itself left out; what a pass used follows from
the notes around its beginning and its end, however busy the machine is. Passes run one after the other. What XLA
verifies after each of them is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.oracles.flags import flags_for
from tests.oracles.xla import ROOT, XlaError, compiled, compiling, device_count

__all__ = ["PassTime", "begin_and_end", "time_of_pass", "used_until"]

PARTITIONER = "spmd-partitioning"
_TICK = 0.002
"""Seconds between two notes. On a busy machine a note every 0.5 ms adds 8 % to what one every 4 ms measures."""

Note = tuple[float, float]
"""The time of day, and the processor time that the process had used then; seconds."""


@dataclass(frozen=True, slots=True)
class PassTime:
    """What a pass took.

    Attributes:
        processor_seconds: Processor time that it used.
        seconds: How long it took, other work on the machine included.
    """

    processor_seconds: float
    seconds: float


def time_of_pass(text: str, devices: int | None = None, *, name: str = PARTITIONER, timeout: float = 300.0) -> PassTime:
    """What a pass takes on a module, with all that XLA does inside it (of the partitioner, cleaning up behind it).

    Arguments:
        text: The module, with sdy shardings.
        devices: How many virtual CPU devices; what the module says by default.
        name: The pass.
        timeout: Seconds to wait.

    Raises:
        XlaError: XLA refused the module, died of it, or took too long.
    """
    count = devices or device_count(text)
    forced = flags_for(count)
    logged = {"TF_CPP_VMODULE": "hlo_pass_pipeline=1", "TF_CPP_MIN_LOG_LEVEL": "0"}
    with tempfile.NamedTemporaryFile("w+", prefix="xla-log-") as log:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.oracles.xla_pass", log.name, name, str(count)],
                cwd=ROOT,
                env={**os.environ, **logged, "XLA_FLAGS": forced, "JAX_PLATFORMS": "cpu"},
                input=text,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise XlaError("XLA took too long") from error
        if done.returncode != 0 or not done.stdout:
            raise XlaError(Path(log.name).read_text()[-2000:] or f"XLA ran no pass called {name}")
    return PassTime(**json.loads(done.stdout))


# --- in the child


def _watch(log: Path, name: str) -> None:
    """Note processor time until the log says that the pass is over; then answer, and end the process."""
    notes: list[Note] = []
    over = f"HLO pass: {name} time:"
    with log.open(errors="replace") as stream:
        lines = [""]
        while not any(over in line for line in lines):
            time.sleep(_TICK)
            notes.append((time.time(), time.process_time() - time.thread_time()))
            lines = [lines[-1], *stream.readlines()]
    notes.append((time.time(), time.process_time() - time.thread_time()))
    print(json.dumps(_between(notes, *begin_and_end(log.read_text(errors="replace"), name))), flush=True)
    os._exit(0)


def begin_and_end(log: str, name: str) -> tuple[float, float]:
    """The times of day at which a pass began and ended, by a log, before what it made was verified."""
    lines = log.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.endswith(f"  HLO pass {name}"))
    ends = ("Invariant checker", f"HLO pass: {name} time:")
    end = next(line for line in lines[begin:] if any(text in line for text in ends))
    return _stamp(lines[begin]), _stamp(end)


def _stamp(line: str) -> float:
    """The time of day of a line of the log, `I1122 23:20:32.129435 …`, which does not tell the year."""
    return datetime.strptime(f"{datetime.now().year}{line[1:21]}", "%Y%m%d %H:%M:%S.%f").timestamp()


def _between(notes: list[Note], begin: float, end: float) -> dict[str, float]:
    return {"processor_seconds": used_until(notes, end) - used_until(notes, begin), "seconds": end - begin}


def used_until(notes: list[Note], moment: float) -> float:
    """The processor time used until a moment, in proportion between the notes around it."""
    after = min(max(1, bisect(notes, (moment, 0.0))), len(notes) - 1)
    (earlier, less), (later, more) = notes[after - 1], notes[after]
    return less + (more - less) * (moment - earlier) / (later - earlier)


def _compile(text: str, log: Path, name: str, devices: int) -> None:
    client, options = compiling(devices, None, local=False)
    threading.Thread(target=_watch, args=(log, name), daemon=True).start()
    compiled(text, client, options)


if __name__ == "__main__":
    _compile(sys.stdin.read(), Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
