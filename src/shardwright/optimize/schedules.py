"""Orders of the ops of a block by list scheduling: what should come next, of all that can, at every moment.

    collectives whose operands are there       first, so that they start early
    ops whose operands are there               then, so that collectives have something beside them
    what waits least                           where nothing else is left

Among those of a kind the first by a priority: its place in the text, or how much is still to be done behind it, the
critical path. What any device computes where it is read, constants and scalars in all places, stands before its first
reader, and so does what takes no time and needs nothing but these and what is there from the start. Where no more fits
in memory, ops come as they stand in the text. The same is given each time.

Source: list scheduling, as XLA's latency-hiding scheduler does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from shardwright.cost.overlap import Queue, Timeline, Work
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


def listed(tasks: Tasks, priorities: Priorities, most: float, limit: float = inf) -> Listed | None:
    """Another order of tasks; `None` where it is seen on the way that it takes no less than a limit.

    Arguments:
        tasks: The tasks.
        priorities: Which of them come first.
        most: The bytes that values should take at most.
        limit: The seconds.
    """
    lister = _Lister(tasks, priorities, most, limit)
    return Listed(lister.order, lister.timeline.end, lister.held) if lister.run() else None


class _Lister:
    """Time and memory, while tasks are begun one after the other.

    Tasks are known by their ranks in waiting, their places in order of priority: whole numbers are compared fast.
    """

    def __init__(self, tasks: Tasks, priorities: Priorities, most: float, limit: float) -> None:
        self.tasks = tasks
        self.most = most
        self.spare = limit - tasks.computing  # the time that the device may wait
        self.order: list[int] = []
        self.timeline = Timeline()
        self.held = 0
        self.left = list(tasks.left)
        self.is_done = bytearray(len(tasks.tasks))
        self.by_rank = sorted(range(len(tasks.tasks)), key=priorities.__getitem__)
        self.ranks = sorted(range(len(tasks.tasks)), key=self.by_rank.__getitem__)
        self.waiting: list[tuple[float, int]] = []
        self.collectives: list[int] = []
        self.others: list[int] = []
        self.by_text: list[int] | None = None  # those two, by their places in the text, once that was asked for

    def run(self) -> bool:
        """Put all tasks in order; whether they take less than the limit."""
        tasks, by_rank, timeline, waiting, most = self.tasks, self.by_rank, self.timeline, self.waiting, self.most
        holds, beats, lazy, behind, left = tasks.holds, tasks.beats, tasks.lazy, tasks.behind, self.left
        collectives, others, is_done, put = self.collectives, self.others, self.is_done, self.order.append
        sizes, readers, bytes, held = tasks.sizes, dict(tasks.readers), 0, 0
        self.offer([n for n, task in enumerate(tasks.tasks) if not left[n] and not task.is_lazy])
        rest = iter(range(len(beats)))  # what nobody reads, and what the block yields, comes last
        while True:
            while waiting and waiting[0][0] <= timeline.now:
                self.ready(heappop(waiting)[1])
            if self.by_text is not None:
                self.forget_begun()
            if collectives and bytes + holds[by_rank[collectives[0]]][0] <= most:
                number = by_rank[heappop(collectives)]
            elif others and bytes + holds[by_rank[others[0]]][0] <= most:
                number = by_rank[heappop(others)]
            elif waiting and not others:
                number = by_rank[heappop(waiting)[1]]
            elif collectives or others:
                number = self.first_of_text()
            elif (number := next((one for one in rest if not is_done[one]), -1)) < 0:
                break
            for one in self.with_lazy(number) if lazy[number] else (number,):
                is_done[one] = True
                put(one)
                beat = beats[one]
                if isinstance(beat, float):
                    timeline.now += beat
                elif not self.begin(beat):
                    return False
                growth, kept, read = holds[one]  # as `most_bytes`, whose next step is known only once this is done
                if bytes + growth > held:
                    held = bytes + growth
                bytes += kept
                for value in read:
                    readers[value] -= 1
                    if not readers[value]:
                        bytes -= sizes[value]
            for one in behind[number]:
                left[one] -= 1
                if not left[one]:
                    self.offer((one,))
        self.held = held
        return True

    def begin(self, works: Iterable[Work]) -> bool:
        """Begin works; whether the device has not waited longer than it may."""
        timeline = self.timeline
        for work in works:
            now = timeline.now
            timeline.begin(work)
            self.spare -= timeline.now - now - (work.seconds if work.queue is Queue.COMPUTE else 0.0)
        return self.spare > 0

    def offer(self, numbers: Iterable[int]) -> None:
        """Know that all that these tasks need has been begun."""
        now, ranks = self.timeline.now, self.ranks
        for number in numbers:
            waits = self.tasks.waits[number]
            when = self.timeline.wait(waits) if waits else 0.0
            if when <= now:
                self.ready(ranks[number])
            else:
                heappush(self.waiting, (when, ranks[number]))

    def ready(self, rank: int) -> None:
        """Know that all that a task needs is there."""
        number = self.by_rank[rank]
        heappush(self.collectives if self.tasks.is_collective[number] else self.others, rank)
        if self.by_text is not None:
            heappush(self.by_text, number)

    def first_of_text(self) -> int:
        """Of what can be begun now, what stands first; it stays among what waits until `forget_begun`."""
        if self.by_text is None:
            self.by_text = sorted([self.by_rank[rank] for rank in (*self.collectives, *self.others)])
        while self.is_done[self.by_text[0]]:
            heappop(self.by_text)
        return heappop(self.by_text)

    def forget_begun(self) -> None:
        """Have what can be begun next stand first among what waits."""
        for heap in (self.collectives, self.others):
            while heap and self.is_done[self.by_rank[heap[0]]]:
                heappop(heap)

    def with_lazy(self, number: int) -> list[int]:
        """A task behind what of that it needs stands before its first reader, and is not there yet."""
        found: list[int] = []
        for need in self.tasks.lazy[number]:
            if not self.is_done[need] and need not in found:
                found += [one for one in self.with_lazy(need) if one not in found]
        return [*found, number]
