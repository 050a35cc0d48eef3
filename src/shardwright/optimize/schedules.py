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

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from shardwright.cost.overlap import Timeline, Work, overlapped_seconds
from shardwright.optimize.works import is_collective

__all__ = ["Task", "by_critical_path", "by_text", "listed", "peak_bytes", "seconds_of"]

Priorities = Sequence[float]
"""Of each task, what comes first has the least."""


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


def by_text(tasks: Sequence[Task]) -> Priorities:
    """The priorities of tasks as they stand."""
    return range(len(tasks))


def by_critical_path(tasks: Sequence[Task]) -> Priorities:
    """The priorities of tasks by the seconds that the longest chain takes which begins with each."""
    behind = [0.0] * len(tasks)
    paths = [0.0] * len(tasks)
    for number in reversed(range(len(tasks))):
        task = tasks[number]
        paths[number] = behind[number] + sum(work.seconds for work in task.works)
        for need in task.needs:
            behind[need] = max(behind[need], paths[number])
    return [-path for path in paths]


def seconds_of(tasks: Iterable[Task]) -> float:
    """The seconds that tasks take in their order."""
    return overlapped_seconds(work for task in tasks for work in task.works)


def peak_bytes(tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> int:
    """The most bytes of values that are alive at once, of those that tasks make in their order.

    Arguments:
        tasks: The tasks.
        sizes: The bytes of each value that they make.
        returned: The values that are alive at the end.
    """
    alive = _Alive(tasks, sizes, returned)
    most = 0
    for task in tasks:
        most = max(most, alive.bytes + alive.growth(task))
        alive.run(task)
    return most


def listed(
    tasks: Sequence[Task], priorities: Priorities, sizes: Mapping[int, int], returned: Sequence[int], most: float
) -> list[int]:
    """The numbers of tasks in another order.

    Arguments:
        tasks: The tasks, each behind those that it needs.
        priorities: Which come first.
        sizes: The bytes of each value that they make.
        returned: The values that are alive at the end.
        most: The bytes that values should take at most.
    """
    return _Lister(tasks, priorities, _Alive(tasks, sizes, returned), most).run()


class _Alive:
    """The bytes of values that will still be read."""

    def __init__(self, tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> None:
        self.bytes = 0
        self._sizes = sizes
        self._readers = dict.fromkeys(sizes, 0)
        for values in (returned, *[task.reads for task in tasks]):
            for value in set(values) & sizes.keys():
                self._readers[value] += 1

    def growth(self, task: Task) -> int:
        return sum([self._sizes[value] for value in task.makes])

    def run(self, task: Task) -> None:
        for value in task.makes:
            self.bytes += self._sizes[value] if self._readers[value] else 0
        for value in task.reads:
            if value in self._readers:
                self._readers[value] -= 1
                self.bytes -= 0 if self._readers[value] else self._sizes[value]


class _Lister:
    def __init__(self, tasks: Sequence[Task], priorities: Priorities, alive: _Alive, most: float) -> None:
        self.tasks = tasks
        self.alive = alive
        self.most = most
        self.timeline = Timeline()
        self.order: list[int] = []
        self._keys = priorities
        self._is_done = [False] * len(tasks)
        self._needed = [[need for need in task.needs if not tasks[need].is_lazy] for task in tasks]
        self._left = list(map(len, self._needed))
        self._behind: list[list[int]] = [[] for _ in tasks]
        for number, needs in enumerate(self._needed):
            for need in needs:
                self._behind[need].append(number)
        self._waiting: list[tuple[float, float, int]] = []
        self._collectives: list[tuple[float, int]] = []
        self._others: list[tuple[float, int]] = []

    def run(self) -> list[int]:
        for number, task in enumerate(self.tasks):
            if not self._left[number] and not task.is_lazy:
                self._offer(number)
        while (next := self._next()) is not None:
            self._put(next)
        for number in range(len(self.tasks)):  # what nobody reads, and what the block yields
            self._put(number)
        return self.order

    def _offer(self, number: int) -> None:
        """Know that all that a task needs has been begun."""
        when = self.timeline.wait(self.tasks[number].reads)
        heappush(self._waiting, (when, self._keys[number], number))

    def _next(self) -> int | None:
        """The task that comes next; `None` where none is left."""
        while self._waiting and self._waiting[0][0] <= self.timeline.now:
            _, key, number = heappop(self._waiting)
            heappush(self._collectives if is_collective(self.tasks[number].works) else self._others, (key, number))
        for heap in (self._collectives, self._others):
            if heap and self._fits(heap[0][1]):
                return heappop(heap)[1]
        if self._waiting and not self._others:
            return heappop(self._waiting)[2]
        return self._first_of_text()

    def _fits(self, number: int) -> bool:
        return self.alive.bytes + self.alive.growth(self.tasks[number]) <= self.most

    def _first_of_text(self) -> int | None:
        """Of what can be begun now, what stands first."""
        found = min((number for _, number in (*self._collectives, *self._others)), default=None)
        for heap in (self._collectives, self._others):
            kept = [entry for entry in heap if entry[1] != found]
            if len(kept) < len(heap):
                heap[:] = kept
                heapify(heap)
        return found

    def _put(self, number: int) -> None:
        """Put a task next, behind what of that it needs stands before its first reader."""
        if self._is_done[number]:
            return
        self._is_done[number] = True
        task = self.tasks[number]
        for need in task.needs:
            if self.tasks[need].is_lazy:
                self._put(need)
        for work in task.works:
            self.timeline.begin(work)
        self.alive.run(task)
        self.order.append(number)
        for behind in self._behind[number]:
            self._left[behind] -= 1
            if not self._left[behind] and not self.tasks[behind].is_lazy:
                self._offer(behind)
