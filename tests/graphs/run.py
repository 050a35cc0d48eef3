"""Programs by number through worker processes; what is wrong is told with its number and its smallest program.

.venv/bin/python -m tests.graphs.run 20000 [FIRST]      # so many programs
.venv/bin/python -m tests.graphs.run = 4711             # that program, shrunk
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.graphs.judge import Verdict, judged
from tests.graphs.programs import Program, program
from tests.graphs.shrink import shrunk

__all__ = ["Outcome", "report", "run"]

WORKERS = int(os.environ.get("SHARDWRIGHT_FUZZ_WORKERS", "2"))
_ROOT = Path(__file__).parents[2]
_AT_ONCE = 50
_SECONDS = 3600


@dataclass(slots=True)
class Outcome:
    """What came of many programs."""

    verdicts: list[Verdict] = field(default_factory=list)
    families: Counter[str] = field(default_factory=Counter)

    @property
    def failures(self) -> list[Verdict]:
        """Those with a problem."""
        return [verdict for verdict in self.verdicts if verdict.problem]

    def summary(self) -> str:
        """One line for people."""
        refused = Counter(verdict.refused for verdict in self.verdicts if verdict.refused)
        parts = ", ".join(f"{name} {count}" for name, count in self.families.most_common())
        names = "".join(f", refused {count} ({words})" for words, count in refused.items())
        measured = sum(verdict.measured for verdict in self.verdicts)
        return (
            f"{len(self.verdicts)} programs of {self.families.total()} steps, {len(self.failures)} wrong{names};"
            f" rounding measured for {measured}; steps: {parts}"
        )


def run(numbers: Sequence[int], workers: int = WORKERS, tell: Callable[[Verdict], None] | None = None) -> Outcome:
    """Judge programs, so many processes at a time."""
    outcome = Outcome()
    chunks = [numbers[at : at + _AT_ONCE] for at in range(0, len(numbers), _AT_ONCE)]
    with ThreadPoolExecutor(workers) as pool:
        for lines in pool.map(_chunk, chunks):
            for line in lines:
                verdict = Verdict(**line["verdict"])
                outcome.verdicts.append(verdict)
                outcome.families.update(line["families"])
                if verdict.problem and tell:
                    tell(verdict)
    return outcome


def _chunk(numbers: Sequence[int]) -> list[dict]:
    """Some programs in a process of their own; where that dies, each in one."""
    command = [sys.executable, "-m", "tests.graphs.worker", *map(str, numbers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)])}
    try:
        done = subprocess.run(
            command, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS
        )
        problem, output = f"the process ends with status {done.returncode}", done.stdout
        if done.returncode == 0:
            return [json.loads(line) for line in output.splitlines()]
        problem += f"\n{done.stderr.decode(errors='replace')[-3000:]}"
    except subprocess.TimeoutExpired:
        problem = "the process takes too long"
    if len(numbers) > 1:
        return [line for number in numbers for line in _chunk([number])]
    return [{"verdict": {"number": numbers[0], "problem": problem}, "families": {}}]


def report(verdict: Verdict, seconds: float = 300.0) -> str:
    """A problem with what it takes to see it again, and the smallest program that has it, as far as time allows."""
    end = time.monotonic() + seconds

    def is_wrong(one: Program) -> bool:
        if time.monotonic() > end:
            return False
        (again,) = judged([one])
        return again.kind == verdict.kind

    again = f".venv/bin/python -m tests.graphs.run = {verdict.number}"
    small = shrunk(program(verdict.number), is_wrong)
    return f"{again}\n{verdict.problem[:4000]}\n{small.source()}\n{small.lowered()}"


def main(arguments: list[str]) -> int:
    """Run programs and print what is wrong; of each kind of problem the first is shrunk."""
    if arguments[0] == "=":
        (verdict,) = run([int(arguments[1])], 1).verdicts
        print(report(verdict) if verdict.problem else f"program {verdict.number} is right")
        return bool(verdict.problem)
    count, first = int(arguments[0]), int(arguments[1]) if arguments[1:] else 0
    start = time.monotonic()

    def tell(verdict: Verdict) -> None:
        print(f"[{time.monotonic() - start:.0f} s] program {verdict.number}: {verdict.kind}", flush=True)

    outcome = run(range(first, first + count), tell=tell)
    for kind, times in Counter(verdict.kind for verdict in outcome.failures).items():
        verdict = next(verdict for verdict in outcome.failures if verdict.kind == kind)
        print(f"\n==== {times} times: {report(verdict)}", flush=True)
    print(outcome.summary())
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
