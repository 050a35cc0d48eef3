"""How long a program takes by the price, one thing after the other, and collectives beside what computes."""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.cost.overlap import Queue, overlapped_seconds
from shardwright.ir.graph import Graph
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import works_of

__all__ = ["Times", "times"]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that a device takes, by `cost.price`.

    Attributes:
        computing: Computing.
        links: Talking within a node, or where nodes are not told apart.
        network: Talking between nodes.
        overlapped: All of it in the order of the program, collectives beside what does not wait for them.
    """

    computing: float
    links: float
    network: float
    overlapped: float

    @property
    def one_after_the_other(self) -> float:
        """All of it, nothing at the same time."""
        return self.computing + self.links + self.network


def times(graph: Graph) -> Times:
    """What an explicit or a per-device program takes on the hardware of the session."""
    program = ExplicitProgram(graph)
    done = [work for op in graph.main.block.ops for work in works_of(program, op)]
    seconds = {queue: sum(work.seconds + work.beside for work in done if work.queue is queue) for queue in Queue}
    return Times(seconds[Queue.COMPUTE], seconds[Queue.LINKS], seconds[Queue.NETWORK], overlapped_seconds(done))
