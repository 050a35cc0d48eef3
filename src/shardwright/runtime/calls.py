"""Python functions that a module calls, for a process next door: it asks the one that has them, through a pipe.

A module of JAX has a number in place of a function. The process that runs it puts functions of its own in the places of
these numbers: each sends what it is given and gives back what is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["RAISED", "Asking", "answering"]

RAISED = "a Python function that the program calls raised "
"""How it is told; what XLA makes of it is around it."""


@contextmanager
def answering(functions: Sequence[Sequence[Callable[..., Any]]]) -> Iterator[tuple[int, ...]]:
    """Call functions for another process, one after the other, as long as this lasts.

    Arguments:
        functions: For each of its jobs, those that it may ask for.

    Yields:
        The descriptor that `Asking` takes there; nothing if there is nothing to ask for.
    """
    if not any(functions):
        yield ()
        return
    from multiprocessing import Pipe  # few programs call Python

    here, there = Pipe()
    Thread(target=_answer, args=(here, functions), daemon=True).start()  # a function may never come to its end
    with there:
        yield (there.fileno(),)


def _answer(asked: Connection, functions: Sequence[Sequence[Callable[..., Any]]]) -> None:
    with asked:
        while True:
            try:
                job, number, arrays = asked.recv()
                asked.send(_called(functions[job][number], arrays))
            except (EOFError, OSError):  # the other process is gone
                return


def _called(function: Callable[..., Any], arrays: Sequence[Any]) -> tuple[Any, str]:
    """What a function gives as arrays, or in words what it raised."""
    import numpy as np

    try:
        return tuple(np.asarray(result) for result in function(*arrays)), ""
    except Exception as error:  # whatever a function of users raises; it goes on as the failure of the program
        return None, " ".join(f"{type(error).__name__}: {error}".split())


class Asking:
    """The functions of another process, which is `answering`."""

    def __init__(self, descriptor: int) -> None:
        """Hold the end of the pipe that was inherited."""
        from multiprocessing.connection import Connection

        self._pipe = Connection(descriptor)
        self._lock = Lock()  # devices ask at once

    def functions(self, job: int, count: int) -> tuple[Callable[..., Any], ...]:
        """Those of a job."""
        return tuple(partial(self._ask, job, number) for number in range(count))

    def _ask(self, job: int, number: int, *arrays: Any) -> Any:
        import numpy as np

        with self._lock:
            self._pipe.send((job, number, [np.asarray(array) for array in arrays]))
            results, failure = self._pipe.recv()
        if failure:
            raise RuntimeError(f"{RAISED}{failure}")
        return results
