"""How little any choice takes, and any with a certain way: bounds by messages between the nodes of the choice graph.

Seconds are moved between nodes and links such that every choice takes what it took; what each node and each link takes
at least by itself is, together, what every choice takes at least. Where the graph is a tree the bound is the optimum
after one pass either way, else it grows from pass to pass. Ways that are bound to take more than some choice is known
to take need not be looked at any more.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization" (2006), and for links of
several readers "A New Look at Reweighted Message Passing" (2015).
"""

from __future__ import annotations

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.least import Distances
from shardwright.partition.search.stars import Star, star

__all__ = ["Messages"]


class Messages:
    """What was moved by now.

    Attributes:
        moved: For each end of a node, what was moved from the node to the link, for each layout.
        of_nodes: What each node takes at least by itself.
        bound: What every choice takes at least.
    """

    def __init__(self, graph: ChoiceGraph, most: float) -> None:
        """Nothing moved yet; what is impossible takes `most` seconds."""
        self.graph = graph
        self.most = most
        self.moved = [[np.zeros(len(slot.layouts)) for slot in node.slots] for node in graph.nodes]
        self.ends = [(link.maker, *link.readers) for link in graph.links]
        self.place = {end: place for ends in self.ends for place, end in enumerate(ends)}
        self.stars: list[Star | None] = []
        self.of_nodes: list[float] = []
        self.bound = 0.0

    def least(self, distances: Distances, passes: int) -> tuple[float, list[Seconds]]:
        """What every choice takes at least, and what those with each way of each node do.

        Arguments:
            distances: What redistributions take; what was moved for others is moved still.
            passes: How often seconds are moved in the order of the program, and back.
        """
        made: dict[object, Star] = {}
        self.stars = [star(self.graph, link, distances, self.most, made) for link in self.graph.links]
        order = range(len(self.graph.nodes))
        for _ in range(passes):
            for number in order:
                self._visit(number, forth=True)
            for number in reversed(order):
                self._visit(number, forth=False)
        of_links = [float(self._marginal(link, 0).min()) if star else 0.0 for link, star in enumerate(self.stars)]
        self.of_nodes = [float(self._energy(number).min()) for number in order]
        self.bound = sum(of_links) + sum(self.of_nodes)
        return self.bound, [self.bound + self._more(number, of_links) for number in order]

    def chosen(self) -> tuple[int, ...]:
        """A way of every node: in the order of the program each takes what is least by what is chosen already, what
        was moved standing for the rest. Asked after `least`.
        """
        kept, ways = self.moved, list[int]()
        self.moved = [list(slots) for slots in kept]
        for number, node in enumerate(self.graph.nodes):
            energy = self._energy(number)
            for slot, one in enumerate(node.slots):
                if self.stars[one.link] is not None and min(other for other, _ in self.ends[one.link]) < number:
                    energy += self._marginal(one.link, self.place[number, slot])[one.of_way]
            ways.append(int(np.argmin(energy)))
            for slot, one in enumerate(node.slots):
                moved = np.full(len(one.layouts), np.inf)
                moved[one.of_way[ways[-1]]] = self.moved[number][slot][one.of_way[ways[-1]]]
                self.moved[number][slot] = moved
        self.moved = kept
        return tuple(ways)

    def _more(self, number: int, of_links: list[float]) -> Seconds:
        """What each way of a node takes more than the bound, with the links at the node."""
        node, more = self.graph.nodes[number], self._energy(number) - self.of_nodes[number]
        seen = set[int]()
        for slot, one in enumerate(node.slots):
            if self.stars[one.link] is not None and one.link not in seen:
                seen.add(one.link)
                marginal = self._marginal(one.link, self.place[number, slot])
                more = more + (marginal - of_links[one.link])[one.of_way]
        return more

    def _visit(self, number: int, forth: bool) -> None:
        """Take from the links to nodes on one side all that they can give, and give to those on the other side."""
        node, moved = self.graph.nodes[number], self.moved[number]
        before: list[int] = []
        behind: list[int] = []
        for slot, one in enumerate(node.slots):
            if self.stars[one.link] is not None:
                others = [other for other, _ in self.ends[one.link]]
                if min(others) < number:
                    before.append(slot)
                if max(others) > number:
                    behind.append(slot)
        taken, given = (before, behind) if forth else (behind, before)
        for slot in taken:
            moved[slot] -= self._marginal(node.slots[slot].link, self.place[number, slot])
        energy = self._energy(number)
        left = max(sum(node.slots[slot].share for slot in side) for side in (before, behind))
        for slot in given:
            one = node.slots[slot]
            least = np.full(len(one.layouts), np.inf)
            np.minimum.at(least, one.of_way, energy)
            least *= one.share / left
            left -= one.share
            moved[slot] += least
            energy -= least[one.of_way]

    def _energy(self, number: int) -> Seconds:
        """What each way of a node takes by itself, with what was moved."""
        node = self.graph.nodes[number]
        energy = node.seconds.copy()
        for slot, moved in zip(node.slots, self.moved[number], strict=True):
            energy -= moved[slot.of_way]
        return energy

    def _marginal(self, number: int, place: int) -> Seconds:
        """What a link takes at least for each layout at one of its ends, with what was moved."""
        star = self.stars[number]
        assert star is not None
        return star.marginal([self.moved[node][slot] for node, slot in self.ends[number]], place)
