"""Orders of the ops of a block by list scheduling: what should come next, of all that can, at every moment.

    collectives whose operands are there       first, so that they start early
    ops whose operands are there               then, so that collectives have something beside them
    what waits least                           where nothing else is left

Among those of a kind the first by a priority: its place in the text, or how much is still to be done behind it, the
critical path. What any device computes where it is read, constants and scalars in all places, stands before its first
reader. Where no more fits in memory, ops come as they stand in the text. The same is given each time.

Source: list scheduling, as XLA's latency-hiding scheduler does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from shardwright.cost.overlap import Timeline
from shardwright.optimize.tasks import Task, Tasks

__all__ = ["Listed", "Priorities", "by_critical_path", "by_text", "listed"]

Priorities = Sequence[float]
"""Of each task, what comes first has the least."""


class Listed(NamedTuple):
    """An order.

    Attributes:
        order: The numbers of tasks.
        seconds: What they take so.
        held: The most bytes that are alive at once.
    """

    order: list[int]
    seconds: float
    held: int


def by_text(tasks: Sequence[Task]) -> Priorities:
    """The priorities of tasks as they stand."""
    return range(len(tasks))


def by_critical_path(tasks: Sequence[Task]) -> Priorities:
    """The priorities of tasks by the seconds that the longest chain takes which begins with each."""
    behind = [0.0] * len(tasks)
    paths = [0.0] * len(tasks)
    for number in reversed(range(len(tasks))):
        task = tasks[number]
        paths[number] = behind[number] + sum([work.seconds for work in task.works])
        for need in task.needs:
            behind[need] = max(behind[need], paths[number])
    return [-path for path in paths]


def listed(tasks: Tasks, priorities: Priorities, most: float) -> Listed:
    """Another order of tasks.

    Arguments:
        tasks: The tasks.
        priorities: Which of them come first.
        most: The bytes that values should take at most.
    """
    lister = _Lister(tasks, priorities, most)
    lister.run()
    return Listed(lister.order, lister.timeline.end, lister.held)


class _Lister:
    """Time and memory, while tasks are begun one after the other.

    The tables of the tasks are attributes here: of what is asked of each task most is one number of one of them.
    """

    def __init__(self, tasks: Tasks, priorities: Priorities, most: float) -> None:
        self.beats, self.holds, self.sizes = tasks.beats, tasks.holds, tasks.sizes
        self.waits, self.lazy, self.behind = tasks.waits, tasks.lazy, tasks.behind
        self.is_collective = tasks.is_collective
        self.keys = priorities
        self.most = most
        self.order: list[int] = []
        self.timeline = Timeline()
        self.bytes = self.held = 0
        self.readers = dict(tasks.readers)
        self.left = list(tasks.left)
        self.first = [n for n, task in enumerate(tasks.tasks) if not self.left[n] and not task.is_lazy]
        self.is_done = bytearray(len(tasks.tasks))
        self.waiting: list[tuple[float, float, int]] = []
        self.collectives: list[tuple[float, int]] = []
        self.others: list[tuple[float, int]] = []

    def run(self) -> None:
        """Put all tasks in order."""
        count, lazy = len(self.lazy), self.lazy
        self.offer(self.first)
        while (number := self.next()) is not None:
            if lazy[number]:
                self.put(number)
            else:
                self.begin(number)
        for number in range(count):  # what nobody reads, and what the block yields
            self.put(number)

    def offer(self, numbers: Iterable[int]) -> None:
        """Know that all that these tasks need has been begun."""
        keys, now = self.keys, self.timeline.now
        for number in numbers:
            waits = self.waits[number]
            when = self.timeline.wait(waits) if waits else 0.0
            if when <= now:
                self.ready(keys[number], number)
            else:
                heappush(self.waiting, (when, keys[number], number))

    def ready(self, key: float, number: int) -> None:
        """Know that all that a task needs is there."""
        heappush(self.collectives if self.is_collective[number] else self.others, (key, number))

    def next(self) -> int | None:
        """The task that comes next; `None` where none is left."""
        waiting, now, held = self.waiting, self.timeline.now, self.bytes
        while waiting and waiting[0][0] <= now:
            _, key, number = heappop(waiting)
            self.ready(key, number)
        for heap in (self.collectives, self.others):
            if heap and held + self.holds[heap[0][1]][0] <= self.most:
                return heappop(heap)[1]
        if waiting and not self.others:
            return heappop(waiting)[2]
        return self.first_of_text()

    def first_of_text(self) -> int | None:
        """Of what can be begun now, what stands first."""
        found = min([number for _, number in (*self.collectives, *self.others)], default=None)
        for heap in (self.collectives, self.others):
            kept = [entry for entry in heap if entry[1] != found]
            if len(kept) < len(heap):
                heap[:] = kept
                heapify(heap)
        return found

    def put(self, number: int) -> None:
        """Put a task next, behind what of that it needs stands before its first reader."""
        if not self.is_done[number]:
            for need in self.lazy[number]:
                self.put(need)
            self.begin(number)

    def begin(self, number: int) -> None:
        """Begin a task, and know of what needs it."""
        self.is_done[number] = True
        self.order.append(number)
        beat = self.beats[number]
        if isinstance(beat, float):
            self.timeline.now += beat
        else:
            for work in beat:
                self.timeline.begin(work)
        growth, kept, read = self.holds[number]
        bytes, readers = self.bytes, self.readers
        if bytes + growth > self.held:
            self.held = bytes + growth
        bytes += kept
        for value in read:
            readers[value] -= 1
            if not readers[value]:
                bytes -= self.sizes[value]
        self.bytes = bytes
        behind, left = self.behind[number], self.left
        if behind:
            for other in behind:
                left[other] -= 1
            self.offer([other for other in behind if not left[other]])
