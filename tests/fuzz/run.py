"""Cases by number through worker processes; what is wrong is told with its number and its smallest text.

.venv/bin/python -m tests.fuzz.run 20000 [FIRST]      # so many cases
.venv/bin/python -m tests.fuzz.run = 4711             # that case, shrunk
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.fuzz.case import case
from tests.fuzz.judge import Verdict
from tests.fuzz.shrink import shrunk
from tests.fuzz.workers import Worker

__all__ = ["Failure", "Outcome", "run"]

WORKERS = int(os.environ.get("SHARDWRIGHT_FUZZ_WORKERS", "2"))


@dataclass(frozen=True, slots=True)
class Failure:
    """A case with a problem, and the cases that its process had had before."""

    number: int
    kind: str | None
    verdict: Verdict
    before: tuple[int, ...] = ()

    @property
    def problem(self) -> str:
        """The line that tells problems apart."""
        return self.verdict.problem.split("\n", 1)[0]


@dataclass(slots=True)
class Outcome:
    """What came of many cases."""

    loads: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    good: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)
    failures: list[Failure] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many cases there were."""
        return self.statuses.total()

    def summary(self) -> str:
        """One line for people."""
        done = ", ".join(f"{name} {self.good[name]}/{count}" for name, count in sorted(self.commands.items()))
        return (
            f"{self.count} modules, {self.loads} load; succeeded: {done}; slowest {self.slowest[0]:.1f} s"
            f" (case {self.slowest[1]}), most memory {self.largest[0] >> 10} MiB (case {self.largest[1]})"
        )

    def take(self, given: tuple[int, str | None], verdict: Verdict, worker: Worker) -> None:
        """Count a verdict."""
        number, kind = given
        command = " ".join(worker.command[:1] if "shardwright-opt" in worker.command else worker.command[1:])
        self.statuses[verdict.status] += 1
        self.commands[command] += 1
        self.good[command] += verdict.status == 0
        self.loads += verdict.loads
        self.slowest = max(self.slowest, (verdict.seconds, number))
        self.largest = max(self.largest, (verdict.kilobytes, number))
        if verdict.problem:
            self.failures.append(Failure(number, kind, verdict, tuple(worker.since)))


def run(
    cases: Iterable[tuple[int, str | None]], workers: int = WORKERS, tell: Callable[[Failure], None] | None = None
) -> Outcome:
    """Judge cases, each a number and a kind of command or nothing, on so many processes at a time."""
    outcome, waiting = Outcome(), iter(cases)
    busy: dict[Worker, tuple[int, str | None]] = {}
    free = [Worker() for _ in range(workers)]
    everyone = list(free)
    try:
        while True:
            while free and (given := next(waiting, None)) is not None:
                worker = free.pop()
                worker.ask(*given)
                busy[worker] = given
            if not busy:
                return outcome
            for worker in list(busy):
                verdict = worker.poll(0.005)
                if verdict is None:
                    continue
                outcome.take(busy.pop(worker), verdict, worker)
                if verdict.problem and tell:
                    tell(outcome.failures[-1])
                free.append(worker)
    finally:
        for worker in everyone:
            worker.close()


def report(failure: Failure, seconds: float = 60.0) -> str:
    """A failure with what it takes to see it again: one line, and the smallest text found."""
    whole = case(failure.number, failure.kind)
    small = shrunk(whole, failure.problem, seconds)
    again = f".venv/bin/python -m tests.fuzz.run = {failure.number} {failure.kind or ''}".rstrip()
    parts = [
        f"{failure.problem}\n  {again}\n  {' '.join(whole.command)}   # {whole.source}: {', '.join(whole.changes)}"
    ]
    if small is None:
        numbers = " ".join(map(str, failure.before))
        parts.append(f"  not alone: only after the cases {numbers}\n{failure.verdict.problem[:6000]}")
    else:
        parts.append(f"  {' '.join(small.command)}\n{small.content.decode(errors='backslashreplace')[:6000]}")
        parts.append(failure.verdict.problem[-2500:])
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Run cases and print what is wrong; of each problem the first case is shrunk."""
    if arguments[0] == "=":
        number, kind = int(arguments[1]), arguments[2] if arguments[2:] else None
        outcome = run([(number, kind)], 1)
        print("\n".join(map(report, outcome.failures)) or outcome.summary())
        return bool(outcome.failures)
    count, first = int(arguments[0]), int(arguments[1]) if arguments[1:] else 0
    start, seen = time.monotonic(), Counter[str]()

    def tell(failure: Failure) -> None:
        seen[failure.problem] += 1
        print(f"[{time.monotonic() - start:.0f} s] case {failure.number}: {failure.problem}", flush=True)

    outcome = run(((number, None) for number in range(first, first + count)), tell=tell)
    for problem in seen:
        failure = next(failure for failure in outcome.failures if failure.problem == problem)
        print(f"\n==== {seen[problem]} times: {report(failure)}", flush=True)
    print(outcome.summary())
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
