"""How long a program takes whose collectives run beside its computation.

A device computes op after op, in the order in which they stand. A collective is started at its place, once what it
reads is there, and goes on by itself; who first reads what it gives waits for it. Collectives over one kind of link
wait for one another, in order; the links within a node, the network between nodes and computation go side by side.

    compute   a a a a b b . . . . c c
    links       g g g g g g g g          g is started behind a, and c is the first to read it

`cost.price` tells what each takes, and the sum of these what all take one after the other; that is what single choices
are made by. This is asked by what changes where ops stand.

Source: XLA's pairs of `all-gather-start` and `all-gather-done`, and so on; a stream of each GPU for its collectives.

    >>> reads_late = [Work(4.0, Queue.COMPUTE, (), (0,)), Work(8.0, Queue.LINKS, (0,), (1,)), Work(2.0, reads=(0,))]
    >>> overlapped_seconds([*reads_late, Work(2.0, reads=(1,))]), sum(work.seconds for work in reads_late) + 2
    (14.0, 16.0)
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shardwright.axes import Axes
from shardwright.cost.nodes import is_within_nodes
from shardwright.mesh import Mesh

__all__ = [
    "Queue",
    "Timeline",
    "Work",
    "beats_seconds",
    "is_collective",
    "overlapped_seconds",
    "queue_of",
]


class Queue(enum.Enum):
    """What does one thing after the other, beside all other queues."""

    COMPUTE = "compute"
    LINKS = "links within a node"
    NETWORK = "network between nodes"

    __hash__ = object.__hash__  # queues are keys; the hash that enumerations have of their own is slow


class Work(NamedTuple):
    """What a device does for an op.

    Attributes:
        seconds: How long, by itself.
        queue: Where.
        reads: What has to be there before it begins: values, by number.
        makes: What is there when it has ended.
        beside: Of a loop or a branch, how long it computes beyond that, while something is sent within it.
    """

    seconds: float
    queue: Queue = Queue.COMPUTE
    reads: tuple[int, ...] = ()
    makes: tuple[int, ...] = ()
    beside: float = 0.0


class Timeline:
    """Time, while works are begun one after the other.

    Attributes:
        now: When the device can compute what comes next.
        ready: When each value will be there that a collective makes; what is computed is there when the device goes on.
    """

    __slots__ = ("_free", "now", "ready")

    def __init__(self) -> None:
        """Nothing has been done."""
        self.now = 0.0
        self.ready: dict[int, float] = {}
        self._free: dict[Queue, float] = {}

    def wait(self, values: Iterable[int]) -> float:
        """When values will all be there that collectives make; 0 where there is nothing to wait for but the device."""
        ready, when = self.ready, 0.0
        for value in values:
            if value in ready and ready[value] > when:
                when = ready[value]
        return when

    def begin(self, work: Work) -> None:
        """Begin a work, once the device has waited for what it reads."""
        seconds, queue, reads, makes, _ = work
        now, ready = self.now, self.ready
        for value in reads:
            if value in ready and ready[value] > now:
                now = ready[value]
        if queue is _COMPUTE:
            self.now = now + seconds
            return
        self.now = now
        end = self._free[queue] = max(now, self._free.get(queue, 0.0)) + seconds
        for value in makes:
            ready[value] = end

    @property
    def end(self) -> float:
        """When all that was begun has ended."""
        return max([self.now, *self._free.values()])


_COMPUTE = Queue.COMPUTE


def overlapped_seconds(works: Iterable[Work]) -> float:
    """The seconds that works take in their order, collectives beside what computes."""
    return beats_seconds([works])


def beats_seconds(beats: Iterable[float | Iterable[Work]]) -> float:
    """The same of works in parts, or of seconds of computing that waits for nothing in place of some."""
    now, ready, free = 0.0, dict[int, float](), dict[Queue, float]()
    for beat in beats:
        if isinstance(beat, float):
            now += beat
            continue
        for seconds, queue, reads, makes, _ in beat:  # as `Timeline.begin`, of which a call each would take most of it
            for value in reads:
                if value in ready and ready[value] > now:
                    now = ready[value]
            if queue is _COMPUTE:
                now += seconds
                continue
            end = free[queue] = max(now, free.get(queue, 0.0)) + seconds
            for value in makes:
                ready[value] = end
    return max([now, *free.values()])


def is_collective(works: Sequence[Work]) -> bool:
    """Whether the end of works goes on by itself: something may be computed between it and who reads what it makes."""
    return bool(works) and works[-1].queue is not _COMPUTE


def queue_of(axes: Axes, mesh: Mesh, node_devices: int | None) -> Queue:
    """Over what devices that differ along `axes` talk to one another: a network, as soon as two are of two nodes."""
    return Queue.LINKS if node_devices is None or is_within_nodes(axes, mesh, node_devices) else Queue.NETWORK
