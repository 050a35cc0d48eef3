"""How little any choice takes, and any with a certain way: bounds by messages between the nodes of the choice graph.

Seconds are moved between nodes and links such that every choice takes what it took; what each node and each link takes
at least by itself is, together, what every choice takes at least. Where the graph is a tree the bound is the optimum
after one pass either way, else it grows from pass to pass. Ways that are bound to take more than some choice is known
to take need not be looked at any more.

An end at which a value has one layout tells nothing, and nothing is moved there; what a link takes whose other ends all
are so is its node's from the beginning.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization" (2006), and for links of
several readers "A New Look at Reweighted Message Passing" (2015).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

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
        given: For each end of a node, what was moved to the node from the link, for each layout.
        of_nodes: What each node takes at least by itself.
        of_links: And each link.
        bound: What every choice takes at least.
    """

    def __init__(self, graph: ChoiceGraph, most: float) -> None:
        """Nothing moved yet; what is impossible takes `most` seconds."""
        self.graph = graph
        self.most = most
        self.ends = [(link.maker, *link.readers) for link in graph.links]
        self.at = [_At(number, node, graph, self.ends) for number, node in enumerate(graph.nodes)]
        self.given = [at.given for at in self.at]
        self.links = [_Link([self.given[node][slot] for node, slot in ends]) for ends in self.ends]
        for link, ends in zip(self.links, self.ends, strict=True):
            for place, (node, slot) in enumerate(ends):
                self.at[node].places[slot] = link, place
        self.several = [at for at in self.at if at.before or at.behind]
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
        for _ in range(passes):
            for at in self.several:
                at.move(at.before, at.gives_behind)
            for at in reversed(self.several):
                at.move(at.behind, at.gives_before)
        self.of_links = [float(link.marginal(0).min()) if link.star else 0.0 for link in self.links]
        self.of_nodes = [float(at.energy().min()) for at in self.at]
        self.bound = sum(self.of_links) + sum(self.of_nodes)
        return self.bound

    def of_ways(self) -> list[Seconds]:
        """What choices with each way of each node take at least. Asked after `least`."""
        return [self.bound + self._more(number) for number in range(len(self.at))]

    def chosen(self) -> tuple[int, ...]:
        """A way of every node: in the order of the program each takes what is least by what is chosen already, what
        was moved standing for the rest. Asked after `least`.
        """
        kept = [at.block.copy() for at in self.at]
        ways = [at.chosen() for at in self.at]
        for at, block in zip(self.at, kept, strict=True):
            at.block[:] = block
        for link in self.links:
            link.forget()
        return tuple(ways)

    def _know(self, distances: Distances) -> None:
        """Take what redistributions take by now."""
        made: dict[object, Star] = {}
        for link, state in zip(self.graph.links, self.links, strict=True):
            changed = distances.changed(link.type)
            if changed == state.known:
                continue
            state.known = changed
            state.star = star(self.graph, link, distances, self.most, made)
            state.forget()

    def _more(self, number: int) -> Seconds:
        """What each way of a node takes more than the bound, with the links at the node."""
        more, seen = self.at[number].energy() - self.of_nodes[number], set[int]()
        for slot, one in enumerate(self.graph.nodes[number].slots):
            link, place = self.at[number].places[slot]
            if link.star is not None and one.link not in seen:
                seen.add(one.link)
                more = more + (link.marginal(place) - self.of_links[one.link])[one.of_way]
        return more


class _Link:
    """What a link takes, and what it has given to the nodes at its ends.

    Attributes:
        given: That, for each end.
        star: What the value takes; `None` if nobody reads it, or that is not known yet.
        known: `Distances.changed`, when the star was made.
        parts: What the star makes of what was given, as far as it is known.
    """

    __slots__ = ("given", "known", "parts", "star")

    def __init__(self, given: list[Seconds]) -> None:
        self.given = given
        self.star: Star | None = None
        self.known = -1
        self.parts: list[Seconds | None] = [None] * len(given)

    def take(self, place: int) -> None:
        """Give the node at an end all that the link takes."""
        assert self.star is not None
        self.star.least(self.given, self.parts, place, self.given[place])
        self.parts[place] = None

    def marginal(self, place: int) -> Seconds:
        """What it takes at least for each layout at one of its ends, without what it has given."""
        assert self.star is not None
        least = np.empty(self.given[place].size)
        self.star.least(self.given, self.parts, place, least)
        least -= self.given[place]
        return least

    def forget(self) -> None:
        """What was given is not what it was."""
        self.parts = [None] * len(self.given)


class _At:
    """A node, and where its links lead.

    Attributes:
        node: The node.
        groups: For each slot, the ways of the same layout.
        block: What links have given to it, one slot after the other.
        given: The part of each slot.
        rows: That of all slots, where each has a layout for each way, in the same order; else `None`.
        gather: For each slot and way, where in the block it is what was given to the way.
        places: For each slot its link, and which end of that it is.
        before: The slots of links to nodes before it.
        behind: And to nodes behind it.
        gives_before: To the links of which of them it gives which part of what it has left then.
        gives_behind: And to those of which of these.
    """

    __slots__ = (
        "before",
        "behind",
        "block",
        "gather",
        "given",
        "gives_before",
        "gives_behind",
        "groups",
        "node",
        "places",
        "rows",
    )

    def __init__(self, number: int, node: Node, graph: ChoiceGraph, ends: Sequence[Sequence[End]]) -> None:
        """Of a node of this number, where links have these ends."""
        self.node = node
        sizes = [len(slot.layouts) for slot in node.slots]
        starts = [sum(sizes[:slot]) for slot in range(len(sizes) + 1)]
        self.block = np.zeros(starts[-1])
        self.given = [self.block[begin:end] for begin, end in itertools.pairwise(starts)]
        self.groups = [Groups(slot.of_way) for slot in node.slots]
        is_each = all(groups.is_each for groups in self.groups)
        self.rows = self.block.reshape(len(sizes), -1) if is_each and sizes else None
        self.gather = np.array([start + slot.of_way for start, slot in zip(starts, node.slots, strict=False)], np.intp)
        self.places: dict[int, tuple[_Link, int]] = {}
        nodes = [[other for other, _ in ends[slot.link]] for slot in node.slots]
        before = [slot for slot, of_slot in enumerate(nodes) if min(of_slot) < number]
        behind = [slot for slot, of_slot in enumerate(nodes) if max(of_slot) > number]
        left = max(sum(node.slots[slot].share for slot in side) for side in (before, behind))
        self.before, self.behind = ([slot for slot in side if sizes[slot] > 1] for side in (before, behind))
        self.gives_before, self.gives_behind = self.parts(before, left), self.parts(behind, left)

    def parts(self, given: Sequence[int], left: float) -> list[tuple[int, float]]:
        """Slots that something is given to at once, and which part of what is left when it is their turn."""
        parts = list[tuple[int, float]]()
        for slot in given:
            share = self.node.slots[slot].share
            if self.given[slot].size > 1:
                parts.append((slot, share / left))
            left -= share
        return parts

    def energy(self) -> Seconds:
        """What each way takes by itself, with what was given to it."""
        rows = self.block[self.gather] if self.rows is None else self.rows
        energy: Seconds = np.add.reduce(rows, 0)
        energy += self.node.seconds
        return energy

    def move(self, taken: Sequence[int], gives: Sequence[tuple[int, float]]) -> None:
        """Take from the links to nodes on one side all that they can give, and give to those on the other side."""
        for slot in taken:
            link, place = self.places[slot]
            link.take(place)
        if not gives:
            return
        energy, last = self.energy(), gives[-1][0]
        for slot, part in gives:
            link, place = self.places[slot]
            groups, given = self.groups[slot], self.given[slot]
            least = groups.least(energy)
            given -= least * part
            link.parts[place] = None
            if slot != last:
                energy = energy - groups.spread(least * part)

    def chosen(self) -> int:
        """The way that takes least by what is chosen before: from now on what it was given tells that it is chosen."""
        energy = self.energy()
        for slot in self.before:
            link, place = self.places[slot]
            energy += self.groups[slot].spread(link.marginal(place))
        way = int(np.argmin(energy))
        for slot in self.behind:
            link, place = self.places[slot]
            layout, given = self.node.slots[slot].of_way[way], self.given[slot]
            seconds = given[layout]
            given[:] = -np.inf
            given[layout] = seconds
            link.parts[place] = None
        return way
