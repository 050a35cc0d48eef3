"""Why each op is split as it is: what the next best way would take, everything else being as it is.

That is worked out where it is asked for only, of whatever was decided, op by op or for all together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph, Op
from shardwright.partition.decide import decide
from shardwright.partition.decisions import Decisions
from shardwright.partition.search.around import Around
from shardwright.partition.search.as_decided import Decided, Ops
from shardwright.partition.search.build import choice_graph
from shardwright.partition.search.decided import decided_ways
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.graph import Node
from shardwright.partition.search.held import most_to_hold
from shardwright.partition.search.total import times_run
from shardwright.sharding import TensorSharding

__all__ = ["Layouts", "Reason", "reasons_for"]

Layouts = tuple[TensorSharding, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an op is split as it is.

    Attributes:
        op: The op as users know it.
        location: Its place in the source.
        alike: How many ops this is told of: those that are the same, lie alike, and could so too; of the first.
        operands: How its operands lie.
        results: And its results.
        next_operands: How operands would in the next best way.
        next_results: And results.
        seconds_more: What the program takes more then by the price, everything else being as it is, for each of those
            alike; less than nothing where that is faster. What several ops read takes what its dearest reader does.
    """

    op: str
    location: str
    alike: int
    operands: Layouts
    results: Layouts
    next_operands: Layouts
    next_results: Layouts
    seconds_more: float


def reasons_for(graph: Graph, decisions: Decisions) -> tuple[Reason, ...]:
    """Why each op of a propagated program is split as was decided, where there are other ways; what matters most first.

    Arguments:
        graph: The program.
        decisions: What was decided of it.
    """
    return _Reasons(graph, decisions).run()


class _Reasons:
    def __init__(self, graph: Graph, decisions: Decisions) -> None:
        self.graph = graph
        times = times_run(graph)
        self.decided = dict(zip(graph.walk(), decisions.ops, strict=True))
        self.choices = choice_graph(graph, decisions, times, most_to_hold(Decided(Ops(graph, times), decide(graph))))
        self.distances = Distances(current_hardware())
        self.around = Around(self.choices, decided_ways(self.choices.nodes, self.decided), self.distances)

    def run(self) -> tuple[Reason, ...]:
        places: dict[Reason, list[str]] = {}
        for number, node in enumerate(self.choices.nodes):
            if node.op is not None and node.ways:
                for reason in self.reasons(number, node, node.op):
                    places.setdefault(replace(reason, location=""), []).append(reason.location)
        told = [replace(one, location=there[0], alike=len(there)) for one, there in places.items()]
        return tuple(sorted(told, key=lambda one: -one.seconds_more))

    def reasons(self, number: int, node: Node, op: Op) -> Iterator[Reason]:
        """Why an op is split as it is, if there is another way: the next best by bounds first, and then by plans."""
        chosen, tried = self.around.ways[number], set[int]()
        name, place, way = op.signature.label, str(self.graph.locations[op.location]), node.ways[chosen]
        self.plan(number, node, chosen)
        while len(node.ways) > 1:
            taken = self.around.seconds(number)
            others = taken - taken[chosen]
            others[chosen] = math.inf
            best = int(np.argmin(others))
            if not math.isfinite(others[best]):
                return
            if best in tried:
                other, more = node.ways[best], float(others[best])
                yield Reason(name, place, 1, way.operands, way.results, other.operands, other.results, more)
                return
            tried.add(best)
            self.plan(number, node, best)

    def plan(self, number: int, node: Node, way: int) -> None:
        """Know exactly what the links of a node take where it has a way."""
        for slot in node.slots:
            link, layout = self.choices.links[slot.link], slot.layouts[slot.of_way[way]]
            if link.maker[0] == number:
                for end in link.readers:
                    self.distances.plan(link.type, layout, self.around.layout(end))
            else:
                self.distances.plan(link.type, self.around.layout(link.maker), layout)
