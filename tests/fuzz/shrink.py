"""A case that goes wrong, made smaller: lines, then tokens, are left out while it goes wrong in the same way.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (ddmin).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.case import Case
from tests.fuzz.workers import Worker

__all__ = ["least", "shrunk"]

T = TypeVar("T")

_TOKEN = re.compile(rb'"(?:[^"\\\n]|\\.)*"|[%@#!]?[\w.$-]+|\s+|.', re.DOTALL)


def shrunk(case: Case, problem: str, seconds: float) -> Case | None:
    """The smallest case found with the same problem, `None` where a fresh process has no problem with it."""
    worker = Worker()
    end = time.monotonic() + seconds

    def goes_wrong(content: bytes, command: tuple[str, ...] = case.command) -> bool:
        if time.monotonic() > end:
            return False
        return worker.judge(replace(case, content=content, command=command)).problem.split("\n", 1)[0] == problem

    try:
        if not goes_wrong(case.content):
            return None
        pieces: list[bytes] = case.content.splitlines(keepends=True)
        content = b"".join(least(pieces, lambda lines: goes_wrong(b"".join(lines))))
        if len(content) < 8000:
            content = b"".join(least(_TOKEN.findall(content), lambda tokens: goes_wrong(b"".join(tokens))))
        rest = least(case.command[2:], lambda words: goes_wrong(content, (*case.command[:2], *words)))
        return replace(case, content=content, command=(*case.command[:2], *rest))
    finally:
        worker.close()


def least(pieces: Sequence[T], is_wrong: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Pieces of which none can be left out, found by leaving out fewer and fewer at a time."""
    size = max(1, len(pieces) // 2)
    while pieces:
        at, is_smaller = 0, False
        while at < len(pieces):
            rest = [*pieces[:at], *pieces[at + size :]]
            if is_wrong(rest):
                pieces, is_smaller = rest, True
            else:
                at += size
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2) if not is_smaller or size > 1 else 1
    return pieces
