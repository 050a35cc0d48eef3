"""What each part of a run took, as MLIR's timing report shows it.

Source: MLIR's "Pass Infrastructure", Pass Timing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Timer"]

_RULE = f"==={'-' * 73}===\n"
_TITLE = "... Execution time report ..."


class Timer:
    """Seconds by what they were spent on, in order."""

    def __init__(self) -> None:
        """Start the clock."""
        self._start = time.perf_counter()
        self._spent: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Time what happens inside; times under one name add up."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - start

    def report(self, display: str = "tree") -> str:
        """The table, with what was spent on nothing in particular, and the total.

        In the order of the run; for `list`, longest first.
        """
        total = time.perf_counter() - self._start
        spent = list(self._spent.items())
        if display == "list":
            spent.sort(key=lambda row: -row[1])
        rows = [*spent, ("Rest", max(total - sum(self._spent.values()), 0.0)), ("Total", total)]
        lines = [f"  {seconds:8.4f} ({100 * seconds / total:5.1f}%)  {name}\n" for name, seconds in rows]
        head = f"{_RULE}{_TITLE:^79}".rstrip() + f"\n{_RULE}  Total Execution Time: {total:.4f} seconds\n\n"
        return f"{head}  ----Wall Time----  ----Name----\n{''.join(lines)}"
