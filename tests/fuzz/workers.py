"""Worker processes with limits: a case that ends one, keeps it busy or fills it is told, and another one is started."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.fuzz.case import Case
from tests.fuzz.judge import Verdict

__all__ = ["KILOBYTES", "SECONDS", "Worker"]

SECONDS = 10.0
"""Most time of the processor for one case."""
WALL = 120.0
"""Most time by the clock; `run` and `verify` work in processes of their own."""
KILOBYTES = 2 << 20
"""Most memory for one case, beyond what the worker has."""
_CASES = 1000
"""After how many cases a worker has collected enough attributes and is replaced."""
_ROOT = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """One process, in a folder of its own, started when it is needed."""

    def __init__(self) -> None:
        self.limits = SECONDS, WALL, KILOBYTES
        self.folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        self.process: subprocess.Popen[bytes] | None = None
        self.count = 0
        self._heard = b""
        self.command: tuple[str, ...] = ()
        """The first words of the command line in work."""
        self.since: list[int] = []
        """The numbers of the cases that the process has had."""

    def ask(self, number: int, kind: str | None = None) -> None:
        """Begin with the case of a number."""
        self._begin({"number": number, "kind": kind})
        self.since.append(number)

    def judge(self, case: Case) -> Verdict:
        """What comes of a case."""
        content = base64.b64encode(case.content).decode()
        self._begin({"content": content, "command": case.command})
        while (verdict := self.poll(0.05)) is None:
            pass
        return verdict

    def poll(self, seconds: float) -> Verdict | None:
        """The verdict of the case in work, if it is there within so many seconds."""
        assert self.process
        ready, _, _ = select.select([self._answers], [], [], seconds)
        if ready:
            data = os.read(self._answers, 1 << 20)
            if not data:
                return self._died()
            self._heard += data
            while self._heard.startswith((b"ready", b"start")) and b"\n" in self._heard:
                line, _, self._heard = self._heard.partition(b"\n")
                self._started()
                if line.startswith(b"start"):
                    started = json.loads(line[5:])
                    self.command = tuple(started["command"])
                    self.count += _CASES * started["is_last"]
            if self._heard.endswith(b"\n"):
                return self._verdict(json.loads(self._heard))
        return self._beyond_limits()

    def close(self) -> None:
        """End the process and remove its folder."""
        self.stop()
        self.folder.cleanup()

    def stop(self) -> None:
        """End the process and those that it started."""
        if self.process:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            os.close(self._answers)
            assert self.process.stdin
            self.process.stdin.close()
            self.process = None

    def _begin(self, order: dict[str, object]) -> None:
        if self.process and self.count >= _CASES:
            self.stop()
        if self.process is None:
            self._start()
        assert self.process
        assert self.process.stdin
        self.count += 1
        self._heard, self.command = b"", ()
        self._started()
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def _start(self) -> None:
        self._answers, theirs = os.pipe()
        environment = {
            **os.environ,
            "MALLOC_PERTURB_": "165",  # what is read after it was freed is seen
            "PYTHONPATH": os.pathsep.join((str(_ROOT / "src"), str(_ROOT))),
            "PYTHONHASHSEED": "0",
            "SHARDWRIGHT_TRACEBACK": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        with open(Path(self.folder.name, "stderr.worker"), "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", str(theirs)],
                cwd=self._place(),
                env=environment,
                stdin=subprocess.PIPE,
                stderr=errors,
                pass_fds=[theirs],
                start_new_session=True,
            )
        os.close(theirs)
        self.count, self.since = 0, []

    def _place(self) -> str:
        place = Path(self.folder.name, "work")
        place.mkdir(exist_ok=True)
        (place / "tmp").mkdir(exist_ok=True)
        return str(place)

    def _started(self) -> None:
        self._start_wall = time.monotonic()
        self._start_seconds, self._start_kilobytes = self._used()

    def _used(self) -> tuple[float, int]:
        """Time of the processor, and memory in kilobytes."""
        assert self.process
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0, 0
        return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def _beyond_limits(self) -> Verdict | None:
        seconds, kilobytes = self._used()
        seconds, kilobytes = seconds - self._start_seconds, kilobytes - self._start_kilobytes
        most_seconds, wall, most_kilobytes = self.limits
        problem = ""
        if not self.command:  # it is starting
            most_seconds, wall, most_kilobytes = WALL, WALL, KILOBYTES
        if seconds > most_seconds:
            problem = "takes too long"
        elif kilobytes > most_kilobytes:
            problem = "takes too much memory"
        elif time.monotonic() - self._start_wall > wall:
            problem = "hangs"
        if not problem:
            return None
        self.stop()
        return Verdict(-signal.SIGKILL, False, seconds, kilobytes, f"{problem}\n{seconds:.1f} s, {kilobytes >> 10} MiB")

    def _died(self) -> Verdict:
        assert self.process
        status = self.process.wait()
        traceback = ""
        for path in (Path(self.folder.name, "work", "stderr"), Path(self.folder.name, "stderr.worker")):
            if path.exists():
                traceback += path.read_text(errors="replace")[-3000:]
        self.stop()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        where = re.search(r'/src/shardwright/(\S+)", line \d+ in (\w+)', traceback)
        place = f" in {where[1]}:{where[2]}" if where else ""
        return Verdict(status, False, 0.0, 0, f"ends the process: {how}{place}\n{traceback}")

    def _verdict(self, answer: dict[str, object]) -> Verdict:
        verdict = Verdict(**answer)  # type: ignore[arg-type]  # as it was written
        if verdict.kilobytes > self.limits[2] and not verdict.problem:
            return Verdict(**{**answer, "problem": f"takes too much memory\n{verdict.kilobytes >> 10} MiB"})  # type: ignore[arg-type]
        return verdict
