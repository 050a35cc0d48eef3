"""Ops of a block as what is to be put in an order: what devices do for them, what they need, and what they hold.

What all orders share is told once, of the tasks as they stand: which values have to be waited for, who reads what is
made, what leads to what. So an order is timed by a walk over numbers, and of most tasks nothing but their seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shardwright.cost.overlap import Queue, Work, beats_seconds, is_collective
from shardwright.memo import once

__all__ = ["Beat", "Hold", "Task", "Tasks", "hold_of", "most_bytes"]

Beat = float | tuple[Work, ...]
"""What a device does for a task, as far as time tells it: seconds of computing that waits for nothing, or works."""

Hold = tuple[int, int, tuple[int, ...]]
"""The bytes of what a task makes, of these those that are read, and the values with bytes that it reads."""

_COMPUTE = Queue.COMPUTE


class Task(NamedTuple):
    """An op that is to be put somewhere.

    Attributes:
        works: What a device does for it.
        needs: The numbers of the tasks that must come before it.
        reads: The values that it reads, each once.
        makes: The values that it makes.
        is_lazy: Whether it stands before its first reader.
    """

    works: tuple[Work, ...]
    needs: tuple[int, ...]
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    is_lazy: bool = False


def _beats(tasks: Iterable[Task], awaited: frozenset[int]) -> Iterator[Beat]:
    """What a device does for tasks, of which those wait that read values of `awaited`."""
    for works, _, _, _, _ in tasks:
        if len(works) == 1:
            ((seconds, queue, reads, _, _),) = works
            if queue is _COMPUTE and awaited.isdisjoint(reads):
                yield float(seconds)
                continue
        yield tuple(
            [
                Work(seconds, queue, tuple([value for value in reads if value in awaited]), makes)
                for seconds, queue, reads, makes, _ in works
            ]
        )


def hold_of(task: Task, sizes: Mapping[int, int], readers: Mapping[int, int]) -> Hold:
    """What a task holds, of values of such sizes, those with bytes read so often."""
    _, _, reads, makes, _ = task
    growth = kept = 0
    for value in makes:
        size = sizes[value]
        if size:
            growth += size
            if readers[value]:
                kept += size
    return growth, kept, tuple([value for value in reads if value in readers])


def most_bytes(holds: Iterable[Hold], readers: Mapping[int, int], sizes: Mapping[int, int]) -> int:
    """The most bytes of values that are alive at once.

    Arguments:
        holds: What tasks hold, in their order.
        readers: How many of them read each value that takes bytes, and whoever takes what is returned.
        sizes: The bytes of these values.
    """
    bytes = most = 0
    left = dict(readers)
    for growth, kept, reads in holds:
        if bytes + growth > most:
            most = bytes + growth
        bytes += kept
        for value in reads:
            left[value] -= 1
            if not left[value]:
                bytes -= sizes[value]
    return most


class Tasks:
    """The tasks of a block in the order of its text, and what is asked of them for every other order.

    Attributes:
        tasks: The tasks, each behind those that it needs.
        sizes: The bytes of each value that they make.
        returned: The values that are alive at the end.
    """

    def __init__(self, tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> None:
        """Look at tasks."""
        self.tasks = tasks
        self.sizes = sizes
        self.returned = returned

    @once
    def is_collective(self) -> list[bool]:
        """Whether each goes on by itself when it has been started."""
        return [is_collective(task.works) for task in self.tasks]

    @once
    def awaited(self) -> frozenset[int]:
        """The values that are there some time after what makes them was begun."""
        works = [work for task in self.tasks for work in task.works if work.queue is not _COMPUTE]
        return frozenset([value for work in works for value in work.makes])

    @once
    def waits(self) -> list[tuple[int, ...]]:
        """The values that each has to wait for."""
        awaited, none = self.awaited, ()
        return [
            none if awaited.isdisjoint(reads) else tuple([value for value in reads if value in awaited])
            for _, _, reads, _, _ in self.tasks
        ]

    @once
    def beats(self) -> list[Beat]:
        """What a device does for each."""
        return list(_beats(self.tasks, self.awaited))

    @once
    def computing(self) -> float:
        """What a device computes for all of them, in seconds."""
        return sum([work.seconds for task in self.tasks for work in task.works if work.queue is _COMPUTE])

    @once
    def seconds(self) -> float:
        """What they take as they stand."""
        return beats_seconds(self.beats)

    # What needs what

    @once
    def lazy(self) -> list[list[int]]:
        """What each needs that stands before its first reader."""
        is_lazy = self._is_lazy
        return [[need for need in needs if is_lazy[need]] for _, needs, _, _, _ in self.tasks]

    @once
    def left(self) -> list[int]:
        """How much else each needs."""
        return [len(task.needs) - len(lazy) for task, lazy in zip(self.tasks, self.lazy, strict=True)]

    @once
    def behind(self) -> list[list[int]]:
        """What needs each, of those that do not stand before their first reader."""
        behind: list[list[int]] = [[] for _ in self.tasks]
        is_lazy = self._is_lazy
        for number, (_, needs, _, _, _) in enumerate(self.tasks):
            for need in needs:
                if not is_lazy[need]:
                    behind[need].append(number)
        return behind

    @once
    def _is_lazy(self) -> list[bool]:
        return [is_lazy for _, _, _, _, is_lazy in self.tasks]

    def leading(self, some: Collection[int]) -> list[int]:
        """Which of some tasks lead to each, itself included: a bit for each of them, as they stand."""
        bits = {number: 1 << place for place, number in enumerate(sorted(some))}
        leading: list[int] = []
        for number, task in enumerate(self.tasks):
            mine = bits.get(number, 0)
            for need in task.needs:
                mine |= leading[need]
            leading.append(mine)
        return leading

    # What is held

    @once
    def readers(self) -> dict[int, int]:
        """How many tasks read each value that takes bytes; whoever takes what is returned counts as one."""
        readers = dict.fromkeys([value for value, size in self.sizes.items() if size], 0)
        for values in (set(self.returned), *[task.reads for task in self.tasks]):
            for value in values:
                if value in readers:
                    readers[value] += 1
        return readers

    @once
    def holds(self) -> list[Hold]:
        """What each holds."""
        return [hold_of(task, self.sizes, self.readers) for task in self.tasks]

    @once
    def held(self) -> int:
        """The most bytes of values that are alive at once, as they stand."""
        return most_bytes(self.holds, self.readers, self.sizes)
