"""The choice graph with nodes that are alike made one: the ops of blocks that repeat are chosen alike.

Nodes are alike that have the same ways, and the same links to nodes that are alike, as far around as told. Those with
one way have nothing to choose, and tell nothing of what is behind them; so the blocks in the middle of a deep program
are alike, while the first and the last ones, around which something else stands, are chosen by themselves.

Source: colour refinement, as in Weisfeiler and Leman, "The reduction of a graph to canonical form" (1968).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from shardwright.partition.search.all_ways import Numbers
from shardwright.partition.search.chosen import Solution
from shardwright.partition.search.graph import ChoiceGraph, End, Link, Node, Slot
from shardwright.partition.search.messages import Messages
from shardwright.sharding import TensorSharding

__all__ = ["Folded", "folded"]

_FIXED = 0
"""The number of the node that stands for all that have one way."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A choice graph, and what of it stands for what of the one that it was folded from.

    Attributes:
        graph: The smaller graph.
        node_of: For each node of the other, the one that stands for it.
        link_of: For each link of the other, the one that stands for it.
        seen: The nodes with a choice by the one that stands for them and the links that they see, and how many are so.
        slots: For each slot of a node that stands for others, with what the link is folded to: the slot here.
        whole: The other graph.
    """

    graph: ChoiceGraph
    node_of: Sequence[int]
    link_of: Sequence[int]
    seen: Mapping[tuple[int, ...], int]
    slots: Mapping[tuple[int, int, int], int]
    whole: ChoiceGraph

    @property
    def is_whole(self) -> bool:
        """Whether all nodes with a choice stand for themselves: what is proven of this graph is so of the other."""
        return max((number for node, number in Counter(self.node_of).items() if node != _FIXED), default=1) == 1

    def unfolded(self, solution: Solution) -> Solution:
        """What was chosen, for each node and link of the other graph."""
        return replace(
            solution,
            ways=tuple([solution.ways[node] for node in self.node_of]),
            links=tuple([solution.links[link] for link in self.link_of]),
            arcs={number: solution.arcs[link] for number, link in enumerate(self.link_of) if link in solution.arcs},
        )

    def of_first(self, ways: Sequence[int]) -> tuple[int, ...]:
        """A choice of the other graph here: nodes have the way of the first that they stand for."""
        first = [0] * len(self.graph.nodes)
        for node, way in reversed(list(zip(self.node_of, ways, strict=True))):
            first[node] = way if node else 0
        return tuple(first)

    def bound(self, messages: Messages) -> float:
        """What every choice of the other graph takes at least, where nodes need not be chosen alike.

        What was moved from a node here is moved in equal parts from all that it stands for. Links are bound to take
        together what they are here; each node, seeing links of its own only, takes the least for itself.
        """
        alike = Counter(self.node_of)
        of_nodes = 0.0
        for (number, *links), count in self.seen.items():
            energy = self.graph.nodes[number].seconds / alike[number]
            for which, link in enumerate(links):
                slot = self.graph.nodes[number].slots[self.slots[number, which, link]]
                given = messages.given[number][self.slots[number, which, link]] / (slot.share * alike[number])
                energy = energy + given[slot.of_way]
            of_nodes += count * float(energy.min())
        return messages.bound - sum(messages.of_nodes[1:]) + of_nodes


def folded(graph: ChoiceGraph, whole: int, most: int) -> Folded:
    """Make nodes one that are alike, as far around as leaves no more nodes than told.

    Arguments:
        graph: The choice graph.
        whole: With so many nodes that have a choice it stays as it is.
        most: How many nodes there may be; there are more where those that have the same ways are.
    """
    return _Folding(graph).run(whole, most)


class _Folding:
    """Numbers of nodes and links, in the order of the program: those alike have the same."""

    def __init__(self, graph: ChoiceGraph) -> None:
        self.graph = graph
        self.has_choice = [len(node.seconds) > 1 for node in graph.nodes]
        self.alike = Counter[int]()
        self.slots: dict[tuple[int, int, int], int] = {}
        self.fixed: dict[Hashable, int] = {}
        self.types = _numbered([link.type for link in graph.links])
        self.ends = _Ends(graph, self.has_choice, self.fixed)
        self.node_of = self.nodes_by(_look(number, node) for number, node in enumerate(graph.nodes))
        self.links_at = np.array([slot.link for node in graph.nodes for slot in node.slots], dtype=np.intp)
        self.after = np.cumsum([len(node.slots) for node in graph.nodes], dtype=np.intp)

    def run(self, whole: int, most: int) -> Folded:
        """Tell nodes apart by what is around them, farther and farther."""
        if sum(self.has_choice) <= whole:
            self.node_of = self.nodes_by(range(len(self.has_choice)))
            link_of = self.links()
            return self.made(link_of, self.around(link_of))
        while True:
            link_of = self.links()
            around = self.around(link_of)
            finer = self.nodes_by(zip(self.node_of, around, strict=True))
            if max(finer) == max(self.node_of) or max(finer) >= most:
                return self.made(link_of, around)
            self.node_of = finer

    def around(self, link_of: Sequence[int]) -> list[bytes]:
        """The links that each node sees."""
        return _parts(np.array(link_of, dtype=np.intp)[self.links_at], self.after)

    def nodes_by(self, keys: Iterable[Hashable]) -> list[int]:
        """Nodes with a choice by what they have in common; one number is for all that have none."""
        seen = [key if has_choice else None for key, has_choice in zip(keys, self.has_choice, strict=True)]
        return _numbered(seen, {None: _FIXED})

    def links(self) -> list[int]:
        """Links by what those have in common that are alike."""
        return _numbered(zip(self.types, self.ends.seen(self.node_of), strict=True))

    def end(self, end: End) -> tuple[int, int]:
        """How the end of a link is seen from there."""
        if self.has_choice[end[0]]:
            return self.node_of[end[0]], end[1]
        return _FIXED, self.fixed[_lying(self.graph.slot(end))]

    def made(self, link_of: Sequence[int], around: Sequence[bytes]) -> Folded:
        """The graph of what nodes and links have in common; readers of a link that choose alike are as one."""
        nodes = [Node(None, None, (), np.zeros(1))]
        links: list[Link] = []
        self.alike, counts = Counter(self.node_of), Counter(link_of)
        for node, number in zip(self.graph.nodes, self.node_of, strict=True):
            if number == _FIXED:
                nodes[_FIXED].seconds = nodes[_FIXED].seconds + node.seconds
            elif number == len(nodes):
                nodes.append(replace(node, seconds=self.alike[number] * node.seconds, slots=[]))
        for link, number in zip(self.graph.links, link_of, strict=True):
            if number == len(links):
                alike, times = Counter(map(self.end, link.readers)), counts[number]
                readers = {self.end(end): end for end in link.readers}
                maker = self.slot(nodes, number, link.maker, times)
                ends = [self.slot(nodes, number, end, alike[key] * times) for key, end in readers.items()]
                links.append(Link(link.value, link.type, maker, ends, times))
        counted = Counter(zip(self.node_of, around, strict=True))
        seen = {(node, *np.frombuffer(of, np.intp).tolist()): count for (node, of), count in counted.items() if node}
        return Folded(ChoiceGraph(nodes, links, self.graph.scopes), self.node_of, link_of, seen, self.slots, self.graph)

    def slot(self, nodes: Sequence[Node], link: int, end: End, ends: int) -> End:
        """Give a node the end of a link that so many of those have for which it stands."""
        number = self.node_of[end[0]]
        slot = len(nodes[number].slots)
        share = 1.0 if number == _FIXED else ends / self.alike[number]
        nodes[number].slots.append(replace(self.graph.slot(end), link=link, share=share))
        self.slots[number, end[1], link] = slot
        return number, slot


class _Ends:
    """The ends of all links, one link after the other, the maker first."""

    def __init__(self, graph: ChoiceGraph, has_choice: Sequence[bool], fixed: dict[Hashable, int]) -> None:
        """Of a graph; what is fixed is numbered by where it is and how."""
        ends = [end for link in graph.links for end in (link.maker, *link.readers)]
        counts = np.array([1 + len(link.readers) for link in graph.links], dtype=np.intp)
        self.nodes = np.array([node for node, _ in ends], dtype=np.intp)
        self.links = np.repeat(np.arange(counts.size), counts)
        self.after = np.cumsum(counts)
        self.is_reader = np.ones(len(ends), dtype=bool)
        self.is_reader[self.after - counts] = False
        fix = fixed.setdefault
        self.places = np.array(
            [end[1] if has_choice[end[0]] else fix(_lying(graph.slot(end)), len(fixed)) for end in ends], dtype=np.intp
        )

    def seen(self, node_of: Sequence[int]) -> list[bytes]:
        """How the ends of each link are seen from there, those of readers in any order."""
        nodes = np.array(node_of)[self.nodes]
        order = np.lexsort((self.places, nodes, self.is_reader, self.links))
        return _parts(np.stack([nodes, self.places], 1)[order], self.after)


def _parts(numbers: Numbers, after: Numbers) -> list[bytes]:
    """Rows of numbers up to each place, from the place before on."""
    width, text = numbers.itemsize * numbers[:1].size, numbers.tobytes()
    places = (after * width).tolist()
    return [text[begin:end] for begin, end in itertools.pairwise((0, *places))]


def _look(number: int, node: Node) -> Hashable:
    """What nodes must have in common to be alike; a value that is carried round is so by itself alone."""
    if node.carried is not None:
        return number
    scope = node.slots[0].scope if node.slots else None  # an op is in one
    return id(node.ways), id(node.seconds), scope, *[id(slot.layouts) for slot in node.slots]


def _lying(slot: Slot) -> tuple[int, tuple[TensorSharding, ...]]:
    """Where an end is at which nothing is to choose, and how the value lies there."""
    return slot.scope, slot.layouts


def _numbered(keys: Iterable[Hashable], numbers: Mapping[Hashable, int] = MappingProxyType({})) -> list[int]:
    """A number for each key, in the order in which they first appear."""
    known = dict(numbers)
    return [known.setdefault(key, len(known)) for key in keys]
