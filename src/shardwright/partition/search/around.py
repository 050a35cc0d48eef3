"""What each way of a node takes, with all others as they are chosen, and choices in which no other way takes less.

Where a choice is known that is not proven to be the best, nodes that take less otherwise make it better, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph, End, Link
from shardwright.partition.search.least import Distances
from shardwright.partition.search.stars import runs_at_least
from shardwright.sharding import TensorSharding

__all__ = ["Around", "improved"]

_SWEEPS = 16
"""How often all nodes are looked at; mostly nothing is found after three."""


class Around:
    """A choice, and what it takes around each node; a value of several readers takes what its dearest reader does."""

    def __init__(self, graph: ChoiceGraph, ways: Sequence[int], distances: Distances) -> None:
        """So it is chosen, which may be changed in `ways`."""
        self.graph = graph
        self.ways = list(ways)
        self.distances = distances

    def layout(self, end: End) -> TensorSharding:
        """How a value lies at an end."""
        return self.graph.layout(end, self.ways)

    def seconds(self, number: int) -> Seconds:
        """What each way of a node takes, with its links."""
        node = self.graph.nodes[number]
        taken = node.seconds.copy()
        for link in dict.fromkeys(slot.link for slot in node.slots):
            taken += self._of_link(self.graph.links[link], number)
        return taken

    def beside(self, number: int) -> Iterator[int]:
        """The nodes at the links of a node."""
        for slot in self.graph.nodes[number].slots:
            link = self.graph.links[slot.link]
            yield from [node for node, _ in (link.maker, *link.readers) if node != number]

    def _of_link(self, link: Link, number: int) -> Seconds:
        """What a link takes for each way of one of its nodes."""
        times = link.times * runs_at_least(self.graph, link)
        if not times:
            return np.zeros(len(self.graph.nodes[number].seconds))
        made, read = self.graph.slot(link.maker), tuple(map(self.layout, link.readers))
        if link.maker[0] == number:
            seconds: Seconds = times * self.distances.between(link.type, made.layouts, read).max(1)[made.of_way]
            return seconds
        source = (self.layout(link.maker),)
        others = tuple([layout for layout, end in zip(read, link.readers, strict=True) if end[0] != number])
        least = self.distances.between(link.type, source, others).max(initial=0.0)
        dearest: Seconds = np.full(len(self.graph.nodes[number].seconds), least)
        for slot in [self.graph.slot(end) for end in link.readers if end[0] == number]:
            dearest = np.maximum(dearest, self.distances.between(link.type, source, slot.layouts)[0][slot.of_way])
        return times * dearest


def improved(graph: ChoiceGraph, ways: Sequence[int], distances: Distances, least: float) -> tuple[int, ...]:
    """A choice that takes no more, in which no single node would take less otherwise.

    Arguments:
        graph: What there is to choose.
        ways: Of every node, the number of the way.
        distances: What redistributions take.
        least: Seconds below which a difference is none.
    """
    around = Around(graph, ways, distances)
    several = [number for number, node in enumerate(graph.nodes) if len(node.seconds) > 1]
    has_choice = frozenset(several)
    stale = set(several)  # nodes that were not looked at since something around them changed
    for _ in range(_SWEEPS):
        for number in several:
            if number not in stale:
                continue
            stale.discard(number)
            seconds = around.seconds(number)
            best = int(np.argmin(seconds))
            if seconds[best] < seconds[around.ways[number]] - least:
                around.ways[number] = best
                stale.update(has_choice.intersection(around.beside(number)))
        several.reverse()
        if not stale:
            break
    return tuple(around.ways)
