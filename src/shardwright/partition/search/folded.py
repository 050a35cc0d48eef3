"""The choice graph with nodes that are alike made one: the ops of blocks that repeat are chosen alike.

Nodes are alike that have the same ways, and the same links to nodes that are alike, as far around as told. Those with
one way have nothing to choose, and tell nothing of what is behind them; so the blocks in the middle of a deep program
are alike, while the first and the last ones, around which something else stands, are chosen by themselves.

Source: colour refinement, as in Weisfeiler and Leman, "The reduction of a graph to canonical form" (1968).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shardwright.ir.types import TensorType
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.chosen import Solution
from shardwright.partition.search.graph import ChoiceGraph, End, Link, Node, Slot
from shardwright.partition.search.messages import Messages
from shardwright.partition.search.outline import Outline
from shardwright.partition.search.rows import Flags, Rows, in_order
from shardwright.sharding import TensorSharding

__all__ = ["Bounds", "Folded", "Seen", "folded"]

_FIXED = 0
"""The number of the node that stands for all that have one way."""


class Seen(NamedTuple):
    """Nodes with a choice that were given the same, by messages of what stands for them.

    Attributes:
        node: What stands for them.
        slots: Its slots at which it was given what came to theirs, in their order.
        parts: Of each the number of equal parts in which that came to them.
        nodes: The nodes of the other graph.
    """

    node: int
    slots: Sequence[int]
    parts: Sequence[float]
    nodes: Sequence[int]


@dataclass(frozen=True, slots=True)
class Folded:
    """A choice graph, and what of it stands for what of the one that it was folded from.

    Attributes:
        graph: The smaller graph.
        node_of: For each node of the other, the one that stands for it.
        alike: For each node of the graph for how many it stands.
        link_of: For each link of the other, the one that stands for it.
        first: The nodes of the other of which those with a choice are the first that are so, in order.
        seen: The nodes of the other with a choice, by what they were given.
    """

    graph: ChoiceGraph
    node_of: Sequence[int]
    alike: Sequence[int]
    link_of: Sequence[int]
    first: Sequence[int]
    seen: Sequence[Seen]

    @property
    def is_whole(self) -> bool:
        """Whether all nodes with a choice stand for themselves: what is proven of this graph is so of the other."""
        return max(self.alike[_FIXED + 1 :], default=1) == 1

    def unfolded(self, solution: Solution) -> Solution:
        """What was chosen, for each node and link of the other graph."""
        return replace(
            solution,
            ways=tuple([solution.ways[node] for node in self.node_of]),
            links=tuple([solution.links[link] for link in self.link_of]),
            arcs={number: solution.arcs[link] for number, link in enumerate(self.link_of) if link in solution.arcs},
        )

    def of_first(self, ways: Sequence[int]) -> tuple[int, ...]:
        """A choice of the other graph here, told of the `first` nodes: those that stand for more have their way."""
        return 0, *ways

    def bound(self, messages: Messages) -> float:
        """What every choice of the other graph takes at least, where nodes need not be chosen alike: see `Bounds`."""
        return Bounds(self, messages).least()


class Bounds:
    """What every choice of a graph takes at least, by messages of what it was folded to.

    What was moved from a node there is moved in equal parts from all that it stands for. Links are bound to take
    together what they are there; each node, seeing links of its own only, takes the least for itself.
    """

    def __init__(self, folded: Folded, messages: Messages) -> None:
        """Of these messages, as they are whenever that is asked: where in them stands what each way of a node takes."""
        self.messages = messages
        alike, seconds, begin = folded.alike, list[Seconds](), 0
        starts, places, ways, parts = list[int](), list[Numbers](), list[Numbers](), list[Seconds]()
        for number, slots, of_slots, _ in folded.seen:
            node, at = folded.graph.nodes[number], messages.at[number]
            count = len(node.seconds)
            starts.append(begin)
            seconds.append(node.seconds / alike[number])
            places.append(messages.starts[number] + at.gather[slots].ravel())
            ways.append(np.tile(np.arange(begin, begin + count), len(slots)))
            parts.append(np.repeat(of_slots, count))
            begin += count
        self.count = begin
        self.starts = np.array(starts, dtype=np.intp)
        self.alike = np.array([len(one.nodes) for one in folded.seen], dtype=float)
        self.seconds = np.concatenate([np.zeros(0), *seconds])
        self.places, self.ways = (np.concatenate([np.zeros(0, np.intp), *one]) for one in (places, ways))
        self.parts = np.concatenate([np.zeros(0), *parts])

    def least(self) -> float:
        """The bound by what the messages are now."""
        messages = self.messages
        if not self.count:
            return messages.bound - sum(messages.of_nodes[1:])
        given = np.bincount(self.ways, messages.block[self.places] / self.parts, self.count)
        of_nodes = np.minimum.reduceat(self.seconds + given, self.starts)
        return messages.bound - sum(messages.of_nodes[1:]) + float(self.alike @ of_nodes)


def folded(outline: Outline, whole: int, most: int, ways: int = 0) -> Folded:
    """Make nodes one that are alike, as far around as leaves no more nodes than told.

    Arguments:
        outline: The choice graph.
        whole: With so many nodes that have a choice it stays as it is.
        most: How many nodes there may be; there are more where those that have the same ways are.
        ways: So many ways all nodes may have together whatever their number is.
    """
    return _Folding(outline).run(whole, most, ways)


class _Folding:
    """Numbers of nodes that have a choice and of links: those alike have the same."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        ends, kinds, kind_of = outline.ends, outline.kinds, np.array(outline.kind_of, dtype=np.intp)
        is_free = np.array([len(kind.seconds) > 1 for kind in kinds], dtype=bool)[kind_of]
        self.free, self.fixed = np.flatnonzero(is_free), np.flatnonzero(~is_free)
        self.kinds = kind_of[self.free]
        self.counts = np.array([len(kind.seconds) for kind in kinds], dtype=np.intp)[self.kinds]
        self.of_nodes = Rows(ends.at_node[self.free], ends.node_starts[self.free])
        self.of_links = Rows(ends.at_link, ends.link_starts)
        types = [outline.types[value] for value in outline.values]
        keys, numbers = list(map(id, types)), dict[TensorType, int]()  # most are one of few objects
        different = dict(zip(keys, types, strict=True))
        number_of = {key: numbers.setdefault(type, len(numbers)) for key, type in different.items()}
        self.types = np.array(list(map(number_of.__getitem__, keys)), dtype=np.intp)
        self.places = self.lying(~is_free[ends.nodes])
        self.most = 1 + int(self.places.max(initial=0))
        reads = np.ones(ends.nodes.size, dtype=bool)
        reads[ends.link_starts] = False
        self.sides = 2 * np.repeat(np.arange(ends.at_link.size), ends.at_link) + reads

    def lying(self, fixed: Flags) -> Numbers:
        """Which of the ends of its node each end is; where nothing is to choose, where it is and how the value lies."""
        ends, lying = self.outline.ends, dict[tuple[int, tuple[TensorSharding, ...]], int]()
        places = ends.places.copy()
        for number in np.flatnonzero(fixed).tolist():
            place = self.outline.place((int(ends.nodes[number]), int(places[number])))
            places[number] = lying.setdefault((place.scope, place.layouts), len(lying))
        return places

    def ways(self, nodes: Numbers) -> int:
        """How many ways nodes have together."""
        _, first = in_order(nodes)
        return int(self.counts[first].sum())

    def run(self, whole: int, most: int, ways: int) -> Folded:
        """Tell nodes apart by what is around them, farther and farther."""
        if self.free.size <= whole or self.counts.sum() <= ways:
            nodes = np.arange(self.free.size)
            return self.made(nodes, self.links(nodes), nodes)
        nodes, _ = in_order(self.kinds)
        while True:
            links = self.links(nodes)
            finer = self.of_nodes.alike(nodes, links[self.outline.ends.links])
            count = 1 + finer.max(initial=-1)
            if count == 1 + nodes.max(initial=-1) or (count >= most and self.ways(finer) > ways):
                return self.made(nodes, links, finer)
            nodes = finer

    def node_of(self, nodes: Numbers) -> Numbers:
        """For all nodes what stands for them."""
        node_of = np.full(len(self.outline.kind_of), _FIXED)
        node_of[self.free] = _FIXED + 1 + nodes
        return node_of

    def seen(self, nodes: Numbers) -> Numbers:
        """How each end of a link is seen from there."""
        seen: Numbers = self.node_of(nodes)[self.outline.ends.nodes] * self.most + self.places
        return seen

    def links(self, nodes: Numbers) -> Numbers:
        """Links by what those have in common that are alike: their type, and their ends, readers in any order."""
        seen = self.seen(nodes)
        size = 1 + int(seen.max(initial=0))
        return self.of_links.alike(self.types, np.sort(self.sides * size + seen, kind="stable") % size)

    def made(self, nodes: Numbers, links: Numbers, finer: Numbers) -> Folded:
        """The graph of what nodes and links have in common, which `finer` tells apart by what nodes see."""
        nodes, first = in_order(nodes)
        links, first_links = in_order(links)
        made = _Made(self.outline, self.most)
        made.fix(self.fixed.tolist())
        for node, alike in zip(self.free[first].tolist(), np.bincount(nodes).tolist(), strict=True):
            made.add_node(node, alike)
        seen, ends = self.seen(nodes), self.outline.ends
        for link, times in zip(first_links.tolist(), np.bincount(links).tolist(), strict=True):
            made.add_link(link, seen[ends.of_link(link)].tolist(), times)
        finer, first_seen = in_order(finer)
        members = np.split(self.free[np.argsort(finer, kind="stable")], np.cumsum(np.bincount(finer))[:-1])
        alike = zip(first_seen.tolist(), members, strict=True) if finer.size else ()
        return Folded(
            ChoiceGraph(made.nodes, made.links, self.outline.scopes),
            self.node_of(nodes).tolist(),
            made.alike,
            links.tolist(),
            self.free[first].tolist(),
            [
                made.given(
                    _FIXED + 1 + int(nodes[one]), links[ends.links[ends.of_node(self.free[one])]].tolist(), members
                )
                for one, members in alike
            ],
        )


class _Made:
    """A graph being made of nodes and links that stand for others."""

    def __init__(self, outline: Outline, most: int) -> None:
        """Of no link yet; how ends are seen are numbers, so many for each node."""
        self.outline = outline
        self.most = most
        self.nodes = [Node(None, None, (), np.zeros(1))]
        self.alike = [1]
        self.links: list[Link] = []
        self.slots: dict[tuple[int, int], int] = {}  # by how an end is seen, and its link

    def fix(self, fixed: Sequence[int]) -> None:
        """The nodes for which the first one stands."""
        self.nodes[_FIXED].seconds = sum([self.outline.kind(node).seconds for node in fixed], np.zeros(1))
        self.alike[_FIXED] = len(fixed)

    def add_node(self, node: int, alike: int) -> None:
        """A node that stands for so many, of which this is the first."""
        kind, carried = self.outline.kind(node), self.outline.carried.get(node)
        self.nodes.append(Node(self.outline.ops[node], carried, kind.ways, alike * kind.seconds))
        self.alike.append(alike)

    def add_link(self, first: int, seen: Sequence[int], times: int) -> None:
        """A link that stands for so many, of which this is the first; readers that choose alike are as one.

        Arguments:
            first: The link.
            seen: How its ends are seen.
            times: How many links are so.
        """
        link = self.outline.link(first)
        (maker, *readers), counts = seen, Counter(seen[1:])
        made = self.slot(maker, link.maker, times)
        ends = [
            self.slot(one, end, counts[one] * times)
            for one, end in dict(zip(readers, link.readers, strict=True)).items()
        ]
        self.links.append(Link(link.value, link.type, made, ends, times, is_shared=link.is_shared))

    def slot(self, seen: int, end: End, ends: int) -> End:
        """Give a node the end of the next link, which so many of those have for which it stands."""
        number, link = seen // self.most, len(self.links)
        slots = self.nodes[number].slots
        share = 1.0 if number == _FIXED else ends / self.alike[number]
        self.slots[seen, link] = len(slots)
        slots.append(Slot(link, *self.outline.place(end), share))
        return number, len(slots) - 1

    def given(self, node: int, links: Sequence[int], nodes: Numbers) -> Seen:
        """Those of the nodes for which one stands whose ends are at such links."""
        slots = [self.slots[node * self.most + place, link] for place, link in enumerate(links)]
        parts = [self.nodes[node].slots[slot].share * self.alike[node] for slot in slots]
        return Seen(node, slots, parts, nodes.tolist())
