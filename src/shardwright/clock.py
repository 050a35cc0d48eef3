"""What the stages of a program take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

__all__ = ["Clock"]


class Clock:
    """Seconds that each stage took, by name; `watch` hears of every stage as it begins."""

    def __init__(self, watch: Callable[[str], None] | None = None) -> None:
        """Make a clock that has seen nothing."""
        self.seconds: dict[str, float] = {}
        self.watch = watch

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what happens inside as the stage `name`."""
        if self.watch is not None:
            self.watch(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def __getstate__(self) -> dict[str, Any]:
        """The seconds; who watches does so in this process."""
        return {"seconds": self.seconds, "watch": None}

    def before(self, name: str) -> Clock:
        """A clock that has seen what this had when it came to the stage `name`."""
        clock = Clock(self.watch)
        clock.seconds = dict(takewhile(lambda stage: stage[0] != name, self.seconds.items()))
        return clock

    def branch(self) -> Clock:
        """A clock that goes on from here, for one of several continuations."""
        clock = Clock(self.watch)
        clock.seconds = dict(self.seconds)
        return clock
