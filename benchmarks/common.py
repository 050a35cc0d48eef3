"""What every benchmark shares: figures with their bars, and measuring one side at a time in a process of its own.

Each repetition runs in a fork that starts with all of our caches empty, so cold times and peaks are those of a first
compilation; a second run in the same fork gives the warm time. Sides take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
REPETITIONS = int(os.environ.get("BENCH_REPETITIONS", "5"))
MIB = float(1 << 20)

sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # this tree's package, and the peers in tests/oracles

Run = Callable[[], object]
Prepare = Callable[[], Run]
"""Makes ready, which is not measured, and returns what to measure."""
Answer = dict[str, Any]
"""What a process of its own answers; `error` in words, if it failed."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition: seconds with empty caches, seconds again (`None` where not asked), bytes of peak growth."""

    seconds: float
    warm_seconds: float | None
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A number to report. With an `at_most`, it must not exceed that; with an `at_least`, it must come to that."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_short(self) -> bool:
        """Whether it misses its bar."""
        above = self.at_most is not None and not self.value <= self.at_most
        return above or (self.at_least is not None and not self.value >= self.at_least)

    def __str__(self) -> str:
        """`NAME VALUE BAR ok|short`."""
        bars = [f"{sign}{bar:g}" for sign, bar in (("<=", self.at_most), (">=", self.at_least)) if bar is not None]
        bar = ",".join(bars) or "-"
        return f"{self.name} {self.value:.3f} {bar} {'short' if self.is_short else 'ok'}"


class Report:
    """Prints figures as they come and remembers whether any was short."""

    def __init__(self) -> None:
        self.short = 0

    def add(self, name: str, value: float, at_most: float | None = None, at_least: float | None = None) -> None:
        """Print one figure."""
        figure = Figure(name, value, at_most, at_least)
        self.short += figure.is_short
        print(figure, flush=True)

    def exit(self) -> None:
        """Leave with 1 if any figure was short."""
        raise SystemExit(1 if self.short else 0)


class ChildError(RuntimeError):
    """A side failed; the message is its traceback."""


def in_turns(sides: Mapping[str, Callable[[], Sample]], repetitions: int = REPETITIONS) -> dict[str, Sample]:
    """The median of each side, one repetition of each after the other."""
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, side in sides.items():
            samples[name].append(side())
    return {name: _middle(of_side) for name, of_side in samples.items()}


def _middle(samples: list[Sample]) -> Sample:
    warm = [sample.warm_seconds for sample in samples if sample.warm_seconds is not None]
    return Sample(
        median(sample.seconds for sample in samples),
        median(warm) if warm else None,
        int(median(sample.peak_bytes for sample in samples)),
    )


def measure(prepare: Prepare, clock: Callable[[], float] = time.perf_counter) -> Sample:
    """One repetition in a fork: prepare, run with empty caches, run again; `clock` says the seconds.

    Nothing that starts threads, an MLIR context least of all, may have been made in this process before.

    Raises:
        ChildError: it failed there.
    """
    gc.collect()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(prepare, clock, writing)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    if status != 0 or not text:
        raise ChildError(text or f"the fork ended with status {status}")
    return Sample(**json.loads(text))


def _answer(prepare: Prepare, clock: Callable[[], float], writing: int) -> None:
    """In the fork: write the sample, or the traceback, and leave without running anything of the parent's."""
    status = 0
    try:
        text = json.dumps(_sample(prepare, clock))
    except BaseException:
        status, text = 1, traceback.format_exc()
    with os.fdopen(writing, "w") as stream:
        stream.write(text)
    os._exit(status)


def _sample(prepare: Prepare, clock: Callable[[], float]) -> dict[str, float]:
    from shardwright.memo import Session

    run = prepare()
    gc.collect()
    before = _reset_peak()
    with Session():
        seconds = _seconds(run, clock)
        peak = _status("VmHWM")
        gc.collect()
        warm = _seconds(run, clock)
    return {"seconds": seconds, "warm_seconds": warm, "peak_bytes": max(0, peak - before)}


def _seconds(run: Run, clock: Callable[[], float]) -> float:
    start = clock()
    run()
    return clock() - start


def _reset_peak() -> int:
    """Resident bytes now, the peak set back to them where the system lets us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _status("VmHWM")
    return _status("VmRSS")


def _status(field: str) -> int:
    """Bytes that Linux says of this process; 0 elsewhere."""
    try:
        match = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(match.group(1)) * 1024 if match else 0


def example(name: str) -> str:
    """The text of an example; the one too big to be kept in the repository is made when it is not there."""
    path = EXAMPLES / f"{name}.mlir"
    if not path.exists():
        layers = re.fullmatch(r"gpt(\d+)(_scan)?", name)
        assert layers is not None, name
        scan = ["--scan"] if layers.group(2) else []
        command = [sys.executable, str(EXAMPLES / "gpt.py"), "--layers", layers.group(1), *scan, "-o", str(path)]
        subprocess.run(command, check=True)
    return path.read_text()


def in_child(of: Callable[..., Answer], *given: Any) -> Answer:
    """What a function answers in a process of its own; `error` in words, if it fails."""
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_tell, args=(there, of, given), daemon=True)
    process.start()
    there.close()
    try:
        answer: Answer = here.recv()
    except EOFError:
        answer = {"error": "its process was ended"}
    process.join()
    return answer


def _tell(pipe: Any, of: Callable[..., Answer], given: Sequence[Any]) -> None:
    try:
        pipe.send(of(*given))
    except Exception as error:  # told to whoever asked
        pipe.send({"error": f"{type(error).__name__}: {error}"[:600]})
