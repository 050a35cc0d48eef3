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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from shardwright.cost.overlap import Timeline, Work, overlapped_seconds
from shardwright.optimize.works import is_collective

__all__ = ["Listed", "Orders", "Task", "by_critical_path", "by_text", "peak_bytes", "seconds_of"]

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


class Listed(NamedTuple):
    """An order.

    Attributes:
        order: The numbers of tasks.
        seconds: What they take so, as `seconds_of` has it.
        held: The most bytes that are alive at once, as `peak_bytes` has it.
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


def seconds_of(tasks: Iterable[Task]) -> float:
    """The seconds that tasks take in their order."""
    return overlapped_seconds([work for task in tasks for work in task.works])


def peak_bytes(tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> int:
    """The most bytes of values that are alive at once, of those that tasks make in their order.

    Arguments:
        tasks: The tasks.
        sizes: The bytes of each value that they make.
        returned: The values that are alive at the end.
    """
    alive = _Alive(sizes, _readers(tasks, sizes, returned))
    for task, growth in zip(tasks, _growths(tasks, sizes), strict=True):
        alive.run(task, growth)
    return alive.most


class Orders:
    """Tasks, and what is asked of them for every order of theirs."""

    def __init__(self, tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> None:
        """Look at tasks.

        Arguments:
            tasks: The tasks, each behind those that it needs.
            sizes: The bytes of each value that they make.
            returned: The values that are alive at the end.
        """
        self.tasks = tasks
        self.sizes = sizes
        self.readers = _readers(tasks, sizes, returned)
        self.growths = list(_growths(tasks, sizes))
        self.is_collective = [is_collective(task.works) for task in tasks]
        self.lazy = [[need for need in task.needs if tasks[need].is_lazy] for task in tasks]
        self.left = [len(task.needs) - len(lazy) for task, lazy in zip(tasks, self.lazy, strict=True)]
        self.behind: list[list[int]] = [[] for _ in tasks]
        for number, task in enumerate(tasks):
            for need in task.needs:
                if not tasks[need].is_lazy:
                    self.behind[need].append(number)

    def listed(self, priorities: Priorities, most: float) -> Listed:
        """Another order.

        Arguments:
            priorities: Which of the tasks come first.
            most: The bytes that values should take at most.
        """
        lister = _Lister(self, priorities, most)
        return Listed(lister.run(), lister.timeline.end, lister.alive.most)


def _readers(tasks: Sequence[Task], sizes: Mapping[int, int], returned: Sequence[int]) -> dict[int, int]:
    """How many tasks read each value that is made; whoever takes what is returned counts as one."""
    readers = dict.fromkeys(sizes, 0)
    for values in (set(returned), *[task.reads for task in tasks]):
        for value in values:
            if value in readers:
                readers[value] += 1
    return readers


def _growths(tasks: Sequence[Task], sizes: Mapping[int, int]) -> Iterator[int]:
    """The bytes of what each task makes."""
    return (sum([sizes[value] for value in task.makes]) for task in tasks)


class _Alive:
    """The bytes of values that will still be read, and the most that there were."""

    __slots__ = ("_readers", "_sizes", "bytes", "most")

    def __init__(self, sizes: Mapping[int, int], readers: Mapping[int, int]) -> None:
        self.bytes = self.most = 0
        self._sizes = sizes
        self._readers = dict(readers)

    def run(self, task: Task, growth: int) -> None:
        bytes, readers, sizes = self.bytes, self._readers, self._sizes
        if bytes + growth > self.most:
            self.most = bytes + growth
        for value in task.makes:
            if readers[value]:
                bytes += sizes[value]
        for value in task.reads:
            left = readers.get(value)
            if left is not None:
                readers[value] = left - 1
                if left == 1:
                    bytes -= sizes[value]
        self.bytes = bytes


class _Lister:
    def __init__(self, orders: Orders, priorities: Priorities, most: float) -> None:
        self.orders = orders
        self.tasks = orders.tasks
        self.alive = _Alive(orders.sizes, orders.readers)
        self.most = most
        self.timeline = Timeline()
        self.order: list[int] = []
        self._keys = priorities
        self._is_done = bytearray(len(orders.tasks))
        self._left = list(orders.left)
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
        if when <= self.timeline.now:
            self._ready(self._keys[number], number)
        else:
            heappush(self._waiting, (when, self._keys[number], number))

    def _ready(self, key: float, number: int) -> None:
        """Know that all that a task needs is there."""
        heappush(self._collectives if self.orders.is_collective[number] else self._others, (key, number))

    def _next(self) -> int | None:
        """The task that comes next; `None` where none is left."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= self.timeline.now:
            _, key, number = heappop(waiting)
            self._ready(key, number)
        for heap in (self._collectives, self._others):
            if heap and self.alive.bytes + self.orders.growths[heap[0][1]] <= self.most:
                return heappop(heap)[1]
        if waiting and not self._others:
            return heappop(waiting)[2]
        return self._first_of_text()

    def _first_of_text(self) -> int | None:
        """Of what can be begun now, what stands first."""
        found = min([number for _, number in (*self._collectives, *self._others)], default=None)
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
        for need in self.orders.lazy[number]:
            self._put(need)
        for work in task.works:
            self.timeline.begin(work)
        self.alive.run(task, self.orders.growths[number])
        self.order.append(number)
        left = self._left
        for behind in self.orders.behind[number]:
            left[behind] -= 1
            if not left[behind] and not self.tasks[behind].is_lazy:
                self._offer(behind)
