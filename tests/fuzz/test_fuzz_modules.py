"""Mutilated modules through every command and pass: worked, or refused in words; nothing dies, hangs, fills or is half written.

`SHARDWRIGHT_FUZZ=N` runs N modules in the long mode, `SHARDWRIGHT_SEED=N` other ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.fuzz.case import Case, case
from tests.fuzz.run import Outcome, report, run
from tests.fuzz.shrink import least
from tests.fuzz.workers import KILOBYTES, SECONDS, Worker

COUNT = int(os.environ.get("SHARDWRIGHT_FUZZ", "20000"))
SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
COMMANDS = {"convert", "explain", "partition", "propagate", "run", "shardwright-opt", "show", "verify"}


def check(first: int, count: int) -> Outcome:
    """Cases by number, and one of each command that takes long."""
    some: list[tuple[int, str | None]] = [(first, "run"), (first + 1, "verify")]
    outcome = run([*some, *((number, None) for number in range(first, first + count))])
    seen = {failure.problem: failure for failure in reversed(outcome.failures)}
    assert not seen, "\n\n".join(report(failure) for failure in seen.values())
    assert set(outcome.commands) >= COMMANDS
    assert 0.4 <= outcome.loads / outcome.count <= 0.8
    return outcome


def test_modules_are_worked_or_refused(record_property: Callable[[str, object], None]) -> None:
    record_property("summary", f"fuzzer: {check(SEED, 300).summary()}")


@pytest.mark.long
def test_modules_at_length(record_property: Callable[[str, object], None]) -> None:
    record_property("summary", f"fuzzer: {check(SEED + 300, COUNT).summary()}")


def test_a_number_says_the_whole_case() -> None:
    assert [case(number) for number in range(30)] == [case(number) for number in range(30)]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    worker.close()


@pytest.mark.xdist_group("fuzz")
@pytest.mark.parametrize(
    ("action", "problem"),
    [
        ("pass", ""),
        ("raise SystemExit('error: no')", "fails without a diagnostic"),
        ("import sys; print('error: no', file=sys.stderr); sys.exit(1)", ""),
        ("import sys; print('error: no', file=sys.stderr); print('half'); sys.exit(1)", "writes to standard output and fails"),
        ("import sys; print('error: no', file=sys.stderr); sys.exit(3)", "exit status 3"),
        ("import sys; print('error: no', file=sys.stderr)", "success, and prints to standard error"),
        ("import sys; open('out.part', 'w'); sys.exit('error: no')", "leaves a part with status 1"),
        ("import tempfile; tempfile.mkdtemp()", "leaves temporary files"),
        ("{}['x']", "KeyError in <string>:<module>"),
        ("print('Traceback (most recent call last)')", "shows 'Traceback (most recent'"),
        ("import os; os.abort()", "ends the process: SIGABRT"),
        ("import os; os._exit(0)", "ends the process: status 0"),
        ("while True: pass", "takes too long"),
        ("import time; time.sleep(100)", "hangs"),
        ("x = b'x' * (200 << 20)", "takes too much memory"),
        ("x = b'x' * (200 << 20); import time; time.sleep(100)", "takes too much memory"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_noticed(action: str, problem: str, worker: Worker) -> None:
    worker.limits = 1.0, 1.0 if problem == "hangs" else 60.0, 100 << 10
    verdict = worker.judge(Case("", (), b"module {}", ("python", "-c", action)))
    assert verdict.problem.split("\n")[0] == problem, verdict.problem
    worker.limits = SECONDS, 60.0, KILOBYTES
    after = worker.judge(Case("", (), b"module {}", ("shardwright", "convert", "case.mlir", "--to", "sdy")))
    assert (after.status, after.problem, after.loads) == (0, "", True)


def test_the_least_is_found() -> None:
    assert least(list(range(100)), lambda some: {3, 77} <= set(some)) == [3, 77]
    assert least("abc", lambda _: True) == []
    assert least("abc", lambda _: False) == "abc"
