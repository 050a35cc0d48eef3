"""How little any choice takes, and any with a certain way: bounds by messages between the nodes of the choice graph.

Seconds are moved between nodes and links such that every choice takes what it took; what each node and each link takes
at least by itself is, together, what every choice takes at least. Where the graph is a tree the bound is the optimum
after one pass either way, else it grows from pass to pass. Ways that are bound to take more than some choice is known
to take need not be looked at any more.

An end at which a value has one layout tells nothing, and nothing is moved there.

Each pass begins farther on where the last ones have led, the farther the more of them there were: much fewer passes do
then. Where it comes to less so than it was, it goes on from there, and takes no such steps at first.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization" (2006), and for links of
several readers "A New Look at Reweighted Message Passing" (2015); going on as before: Nesterov, "A method for solving
the convex programming problem with convergence rate O(1/k²)" (1983), and starting anew where that leads astray:
O'Donoghue and Candès, "Adaptive Restart for Accelerated Gradient Schemes" (2015).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.distances import Distances
from shardwright.partition.search.given import AtLink, AtNode, Through, gives_all
from shardwright.partition.search.graph import ChoiceGraph
from shardwright.partition.search.groups import Groups
from shardwright.partition.search.stars import Stars

__all__ = ["Messages"]

_ONWARD = 0.8
"""Which part of what the last pass moved is moved once more before the next one, at most."""

_ROUNDED = 1e-9
"""A part of a bound that is rounding."""


class Messages:
    """What was moved by now.

    Attributes:
        given: For each end of a node, what was moved to the node from the link, for each layout.
        block: The same in one array, node by node and end by end.
        starts: And where in it that of each node begins.
        bound: What every choice takes at least.
    """

    def __init__(self, graph: ChoiceGraph, most: float) -> None:
        """Nothing moved yet; what is impossible takes `most` seconds."""
        self.graph = graph
        self.most = most
        ends = [(link.maker, *link.readers) for link in graph.links]
        several = [[node for node, slot in of_link if len(graph.slot((node, slot)).layouts) > 1] for of_link in ends]
        sizes = [sum(len(slot.layouts) for slot in node.slots) for node in graph.nodes]
        self.block = np.zeros(sum(sizes))
        self.starts = np.cumsum([0, *sizes[:-1]])
        blocks = np.split(self.block, self.starts[1:])
        of_ways = {id(slot.of_way): slot.of_way for node in graph.nodes for slot in node.slots}  # many nodes are alike
        groups = {number: Groups(of_way) for number, of_way in of_ways.items()}
        self.at = [
            AtNode(
                number,
                node,
                [several[slot.link] if len(slot.layouts) > 1 else [] for slot in node.slots],
                block,
                [groups[id(slot.of_way)] for slot in node.slots],
            )
            for number, (node, block) in enumerate(zip(graph.nodes, blocks, strict=True))
        ]
        self.given = [at.given for at in self.at]
        self.links = [AtLink(of_link, [self.given[node][slot] for node, slot in of_link]) for of_link in ends]
        for link in self.links:
            for place, (node, slot) in enumerate(link.ends):
                self.at[node].links[slot] = self.at[node].near[slot] = link, place
        self.known = [-1] * len(ends)  # `Distances.changed`, when what the link takes was made
        self.stars: Stars | None = None  # by the distances known
        self.bound = 0.0
        self.rounds = _Rounds(self.at, self.links, self.block)

    def least(self, distances: Distances, passes: int, onward: bool = True) -> float:
        """What every choice takes at least.

        Arguments:
            distances: What redistributions take, the same each time or more of them known; what was moved for others is
                moved still.
            passes: How often seconds are moved in the order of the program, and back.
            onward: Whether each pass begins farther on where the last ones have led: the bound grows faster so; a
                choice is told more clearly by passes that do not.
        """
        self._know(distances)
        kept = self.block.copy()
        bound = self.rounds.go(passes, onward)
        if bound < self.bound * (1 - _ROUNDED):
            self.block[:] = kept
            self.rounds.start_anew()
            bound = self.rounds.go(passes, onward=False)
        self.bound = bound
        return bound

    @property
    def of_nodes(self) -> list[float]:
        """What each node takes at least by itself."""
        return [float(at.energy().min()) for at in self.at]

    @property
    def of_links(self) -> list[float]:
        """What each link takes at least by itself."""
        return [_least(link) for link in self.links]

    def of_ways(self) -> list[Seconds]:
        """What choices with each way of each node take at least. Asked after `least`."""
        of_links = self.of_links
        more = [at.energy() for at in self.at]
        for at, of_node in zip(self.at, more, strict=True):
            of_node += self.bound - float(of_node.min())
            seen = set[int]()
            for slot, one in enumerate(at.node.slots):
                link, place = at.links[slot]
                if link.star is not None and one.link not in seen:
                    seen.add(one.link)
                    of_node += (link.marginal(place) - of_links[one.link])[one.of_way]
        return more

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pass messages, and go on afterwards as if nothing had been passed."""
        kept, bound, led = self.block.copy(), self.bound, (self.rounds.before, self.rounds.count)
        yield
        self.block[:] = kept
        self.rounds.start_anew()
        self.bound, (self.rounds.before, self.rounds.count) = bound, led

    def chosen(self, backwards: bool = False) -> tuple[int, ...]:
        """A way of every node: in the order of the program, or from its end on, each takes what is least by what is
        chosen already, what was moved standing for the rest. Asked after `least`.
        """
        kept = self.block.copy()
        if backwards:
            ways = [at.chosen(at.behind, at.before) for at in reversed(self.at)][::-1]
        else:
            ways = [at.chosen(at.before, at.behind) for at in self.at]
        self.block[:] = kept
        for link in self.links:
            link.forget()
        return tuple(ways)

    def _know(self, distances: Distances) -> None:
        """Take what redistributions take by now."""
        if self.stars is None or self.stars.distances is not distances:
            self.stars = Stars(self.graph, distances, self.most)
        for number, (one, link) in enumerate(zip(self.graph.links, self.links, strict=True)):
            changed = distances.changed(one.type)
            if changed != self.known[number]:
                self.known[number] = changed
                found = self.stars.of(one)
                if found is not link.star:
                    link.know(found)


class _Rounds:
    """Seconds moved in the order of the program, and back, by the nodes that must be visited for it.

    Nodes at ends give all that they have, the same each time; those between two others are part of a link.
    """

    def __init__(self, nodes: Sequence[AtNode], links: Sequence[AtLink], block: Seconds) -> None:
        """Of these nodes and links, where all that was moved to nodes is in one block: nothing yet."""
        self.block = block
        self.is_passed = np.ones(block.size)  # not what links take that are a node's alone, which is told once
        for node in nodes:
            for slot in node.alone:
                node.given[slot][:] = 1.0
        self.is_passed -= block
        block[:] = 0.0
        self.before: Seconds | None = None  # the block when the last pass began
        self.count = 0  # passes begun farther on
        self.between: list[AtNode] = []
        self.through: list[Through] = []
        near = dict.fromkeys(links)
        for node in nodes:
            through = node.between()
            if through is not None:
                self.between.append(node)
                self.through.append(through)
                for place, (other, slot) in enumerate(through.ends):
                    nodes[other].near[slot] = through, place
                for link, _ in through.sides:
                    del near[link]
                near[through] = None
        self.links = tuple(near)
        # all others are taken from last: they take nothing by themselves then
        self.left = [link for link in near if not link.is_taken_last]
        inside = set(self.between)
        self.nodes = [node for node in nodes if node not in inside]
        self.first = [node for node in self.nodes if not node.before and gives_all(node.gives_behind)]
        self.last = [node for node in self.nodes if not node.behind and gives_all(node.gives_before)]
        ends = {*self.first, *self.last}
        visited = [node for node in self.nodes if (node.before or node.behind) and node not in ends]
        self.visits = [
            (node, [node.near[slot] for slot in node.before], [node.near[slot] for slot in node.behind])
            for node in visited
        ]

    def start_anew(self) -> None:
        """What was given is not what it was, and where passes have led tells nothing."""
        self.before, self.count = None, 0
        for link in self.links:
            link.forget()

    def go(self, passes: int, onward: bool = True) -> float:
        """Move seconds so often, and tell what nodes and links take at least then, together.

        Arguments:
            passes: How often, in the order of the program, and back.
            onward: Whether each begins farther on where the last ones have led.
        """
        for through in self.through:
            through.refresh()
        for node in self.first:
            node.move((), node.gives_behind)
        for node in self.last:
            node.move((), node.gives_before)
        for _ in range(passes):
            if onward:
                self.step()
            for node, before, _ in self.visits:
                node.move(before, node.gives_behind)
            for node, _, behind in reversed(self.visits):
                node.move(behind, node.gives_before)
        for node in reversed(self.between):
            node.move([node.links[slot] for slot in node.behind], node.gives_before)
        for node in self.first:
            node.move([node.links[slot] for slot in node.behind], ())
        return sum(map(_least, self.left)) + sum([float(node.energy().min()) for node in self.nodes])

    def step(self) -> None:
        """Move a part of what the last pass moved once more."""
        now = self.block.copy()
        if self.before is not None:
            self.count += 1
            part = min(_ONWARD, self.count / (self.count + 3))
            self.block += part * self.is_passed * (now - self.before)
            for link in self.links:
                link.forget()
        self.before = now


def _least(link: AtLink) -> float:
    """What a link takes at least by itself."""
    return float(link.marginal(0).min()) if link.star else 0.0
