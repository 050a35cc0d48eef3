"""How little any choice takes, and any with a certain way: bounds by messages between the nodes of the choice graph.

Seconds are moved between nodes and links such that every choice takes what it took; what each node and each link takes
at least by itself is, together, what every choice takes at least. Where the graph is a tree the bound is the optimum
after one pass either way, else it grows from pass to pass. Ways that are bound to take more than some choice is known
to take need not be looked at any more.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization" (2006), and for links of
several readers "A New Look at Reweighted Message Passing" (2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.graph import ChoiceGraph, End, Node
from shardwright.partition.search.groups import Groups
from shardwright.partition.search.least import Distances
from shardwright.partition.search.stars import Star, star

__all__ = ["Messages"]


class Messages:
    """What was moved by now.

    Attributes:
        moved: For each end of a node, what was moved from the node to the link, for each layout.
        of_nodes: What each node takes at least by itself.
        of_links: And each link.
        bound: What every choice takes at least.
    """

    def __init__(self, graph: ChoiceGraph, most: float) -> None:
        """Nothing moved yet; what is impossible takes `most` seconds."""
        self.graph = graph
        self.most = most
        self.moved = [[np.zeros(len(slot.layouts)) for slot in node.slots] for node in graph.nodes]
        self.ends = [(link.maker, *link.readers) for link in graph.links]
        self.place = {end: place for ends in self.ends for place, end in enumerate(ends)}
        self.at = [_At(number, node, self.ends, self.place) for number, node in enumerate(graph.nodes)]
        self.stars: list[Star | None] = [None] * len(graph.links)
        self.known = [-1] * len(graph.links)  # `Distances.changed`, when the star was made
        self.parts: list[list[Seconds | None]] = [[] for _ in self.ends]
        self.of_nodes: list[float] = []
        self.of_links: list[float] = []
        self.bound = 0.0

    def least(self, distances: Distances, passes: int) -> float:
        """What every choice takes at least.

        Arguments:
            distances: What redistributions take, the same each time or more of them known; what was moved for others is
                moved still.
            passes: How often seconds are moved in the order of the program, and back.
        """
        self._know(distances)
        order = range(len(self.graph.nodes))
        for _ in range(passes):
            for number in order:
                self._visit(number, forth=True)
            for number in reversed(order):
                self._visit(number, forth=False)
        self.of_links = [float(self._marginal(link, 0).min()) if star else 0.0 for link, star in enumerate(self.stars)]
        self.of_nodes = [float(self._energy(number).min()) for number in order]
        self.bound = sum(self.of_links) + sum(self.of_nodes)
        return self.bound

    def of_ways(self) -> list[Seconds]:
        """What choices with each way of each node take at least. Asked after `least`."""
        return [self.bound + self._more(number) for number in range(len(self.graph.nodes))]

    def chosen(self) -> tuple[int, ...]:
        """A way of every node: in the order of the program each takes what is least by what is chosen already, what
        was moved standing for the rest. Asked after `least`.
        """
        kept, ways = self.moved, list[int]()
        self.moved = [list(slots) for slots in kept]
        for number, node in enumerate(self.graph.nodes):
            energy = self._energy(number)
            for slot in self.at[number].before:
                one = node.slots[slot]
                energy += self.at[number].groups[slot].spread(self._marginal(one.link, self.place[number, slot]))
            ways.append(int(np.argmin(energy)))
            for slot, one in enumerate(node.slots):
                moved = np.full(len(one.layouts), np.inf)
                moved[one.of_way[ways[-1]]] = self.moved[number][slot][one.of_way[ways[-1]]]
                self.moved[number][slot] = moved
                self.parts[one.link][self.place[number, slot]] = None
        self.moved = kept
        self.parts = [[None] * len(ends) for ends in self.ends]
        return tuple(ways)

    def _know(self, distances: Distances) -> None:
        """Take what redistributions take by now."""
        made: dict[object, Star] = {}
        for number, link in enumerate(self.graph.links):
            changed = distances.changed(link.type)
            if changed != self.known[number]:
                self.known[number] = changed
                self.stars[number] = star(self.graph, link, distances, self.most, made)
                self.parts[number] = [None] * len(self.ends[number])

    def _more(self, number: int) -> Seconds:
        """What each way of a node takes more than the bound, with the links at the node."""
        node, more = self.graph.nodes[number], self._energy(number) - self.of_nodes[number]
        seen = set[int]()
        for slot, one in enumerate(node.slots):
            if self.stars[one.link] is not None and one.link not in seen:
                seen.add(one.link)
                marginal = self._marginal(one.link, self.place[number, slot])
                more = more + (marginal - self.of_links[one.link])[one.of_way]
        return more

    def _visit(self, number: int, forth: bool) -> None:
        """Take from the links to nodes on one side all that they can give, and give to those on the other side."""
        node, moved, at = self.graph.nodes[number], self.moved[number], self.at[number]
        taken, given = (at.before, at.behind) if forth else (at.behind, at.before)
        for slot in taken:
            link, place = at.places[slot]
            moved[slot] = moved[slot] - self._marginal(link, place)
            self.parts[link][place] = None
        energy, left = self._energy(number), at.left
        for slot in given:
            link, place = at.places[slot]
            one = node.slots[slot]
            least = at.groups[slot].least(energy)
            least *= one.share / left
            left -= one.share
            moved[slot] = moved[slot] + least
            self.parts[link][place] = None
            energy -= at.groups[slot].spread(least)

    def _energy(self, number: int) -> Seconds:
        """What each way of a node takes by itself, with what was moved."""
        energy = self.graph.nodes[number].seconds.copy()
        for groups, moved in zip(self.at[number].groups, self.moved[number], strict=True):
            energy -= groups.spread(moved)
        return energy

    def _marginal(self, number: int, place: int) -> Seconds:
        """What a link takes at least for each layout at one of its ends, with what was moved."""
        star, parts, ends = self.stars[number], self.parts[number], self.ends[number]
        assert star is not None
        for other, part in enumerate(parts):
            if part is None and other != place:
                node, slot = ends[other]
                parts[other] = star.part(other, self.moved[node][slot])
        node, slot = ends[place]
        return star.marginal(parts, place, self.moved[node][slot])


class _At:
    """Where the links of a node lead.

    Attributes:
        before: Its slots of links to nodes before it.
        behind: And to nodes behind it.
        left: The larger sum of the shares of either.
        places: For each slot its link, and which end of that it is.
        groups: For each slot, the ways of the same layout.
    """

    __slots__ = ("before", "behind", "groups", "left", "places")

    def __init__(self, number: int, node: Node, ends: Sequence[Sequence[End]], place: Mapping[End, int]) -> None:
        """Of a node of this number, where links have these ends, each in this place."""
        others = [[other for other, _ in ends[slot.link]] for slot in node.slots]
        read = [slot for slot, one in enumerate(node.slots) if len(ends[one.link]) > 1]
        self.before = [slot for slot in read if min(others[slot]) < number]
        self.behind = [slot for slot in read if max(others[slot]) > number]
        self.left = max(sum(node.slots[slot].share for slot in side) for side in (self.before, self.behind))
        self.places = [(one.link, place[number, slot]) for slot, one in enumerate(node.slots)]
        self.groups = [Groups(slot.of_way) for slot in node.slots]
