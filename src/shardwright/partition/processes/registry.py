"""Which function lowers which op."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardwright.partition.processes.call import Call

__all__ = ["Process", "process", "process_of"]

Process = Callable[[Call], Sequence[int]]
"""Writes an op with the builder of the call; the values of its results."""

_PROCESSES: dict[str, Process] = {}


def process(*names: str) -> Callable[[Process], Process]:
    """Register the function below as the one that lowers the ops called `names`."""

    def register(function: Process) -> Process:
        for name in names:
            _PROCESSES[name] = function
        return function

    return register


def process_of(name: str) -> Process | None:
    """The function that lowers ops called `name`, or `None`."""
    return _PROCESSES.get(name)
