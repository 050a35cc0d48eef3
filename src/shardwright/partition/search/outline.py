"""The choice graph of a program in outline: few kinds of nodes, and in plain lists which node is of which.

Most nodes of a large program are as others: they have the same ways and the same layouts at their ends. What they have
in common is kept once, and of each node only its kind and its links. So little is made for each op, and blocks that
repeat are found without a look at what they are made of (`folded.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shardwright.ir.graph import Op
from shardwright.ir.types import TensorType
from shardwright.memo import once
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.search.graph import ChoiceGraph, End, Link, Node, Scope, Slot
from shardwright.partition.search.rows import starts_of
from shardwright.partition.ways import Way
from shardwright.sharding import TensorSharding

__all__ = ["Ends", "Kind", "Outline", "Place"]


class Place(NamedTuple):
    """An end of a link at nodes of a kind: see `Slot`.

    Attributes:
        scope: The scope in which the nodes make or read the value, by number.
        layouts: Those that the value may have here, each once.
        of_way: For each way, the number of the layout.
    """

    scope: int
    layouts: tuple[TensorSharding, ...]
    of_way: Numbers


@dataclass(slots=True)
class Kind:
    """What nodes have in common: see `Node`.

    Attributes:
        ways: How the ops can be split; none where that is not to be chosen.
        seconds: What each way takes by itself: of one there is always one.
        places: The ends of links at each of the nodes.
    """

    ways: tuple[Way, ...]
    seconds: Seconds
    places: list[Place] = field(default_factory=list)


class Ends:
    """The ends of links as arrays.

    Attributes:
        links: The link of each, one node after the other.
        at_node: How many there are at each node.
        node_starts: And where these begin.
        nodes: The node of each, one link after the other, whoever makes it first.
        places: Which of the ends of its node it is, in the same order.
        at_link: How many there are of each link.
        link_starts: And where these begin.
    """

    def __init__(self, nodes: Sequence[int], links: Sequence[int], node_count: int, link_count: int) -> None:
        """The nodes and links of the ends, in the order in which a program has them."""
        of_node, of_link = np.array(nodes, dtype=np.intp), np.array(links, dtype=np.intp)
        by_node, by_link = np.argsort(of_node, kind="stable"), np.argsort(of_link, kind="stable")
        self.at_node = np.bincount(of_node, minlength=node_count)
        self.at_link = np.bincount(of_link, minlength=link_count)
        self.node_starts, self.link_starts = starts_of(self.at_node), starts_of(self.at_link)
        places = np.empty(of_node.size, dtype=np.intp)
        places[by_node] = np.arange(of_node.size) - np.repeat(self.node_starts, self.at_node)
        self.links = of_link[by_node]
        self.nodes, self.places = of_node[by_link], places[by_link]

    def of_node(self, node: int) -> slice:
        """Where those of a node are."""
        return slice(begin := int(self.node_starts[node]), begin + int(self.at_node[node]))

    def of_link(self, link: int) -> slice:
        """Where those of a link are."""
        return slice(begin := int(self.link_starts[link]), begin + int(self.at_link[link]))


class Outline:
    """Nodes in the order of the program, and the links between them.

    Attributes:
        types: The type of each value of the program.
        scopes: The scopes, by number.
        kinds: The kinds of nodes, by number.
        kind_of: For each node its kind.
        ops: For each node its op, if it is one; of a value that is carried its loop, of one that branches give or that
            waits these.
        carried: For nodes that are values which loops carry, or which are given there, which of those.
        values: For each link its value.
        end_nodes: For each end of a link the node, in the order of the program: who makes a value before who reads it.
        end_links: For each end the link.
    """

    def __init__(self, types: Sequence[TensorType]) -> None:
        """No node yet of a program whose values have these types."""
        self.types = types
        self.scopes: list[Scope] = []
        self.kinds: list[Kind] = []
        self.kind_of: list[int] = []
        self.ops: list[Op | None] = []
        self.carried: dict[int, int] = {}
        self.values: list[int] = []
        self.end_nodes: list[int] = []
        self.end_links: list[int] = []

    @once
    def ends(self) -> Ends:
        """The ends of links, when all are there."""
        return Ends(self.end_nodes, self.end_links, len(self.kind_of), len(self.values))

    @property
    def ways(self) -> int:
        """How many ways all nodes have together."""
        counts = np.array([len(kind.seconds) for kind in self.kinds], dtype=np.intp)
        return int(counts[self.kind_of].sum())

    @once
    def graph(self) -> ChoiceGraph:
        """The choice graph itself, when all is there."""
        links = [self.link(number) for number in range(len(self.values))]
        return ChoiceGraph([self.node(number) for number in range(len(self.kind_of))], links, self.scopes)

    def node(self, number: int) -> Node:
        """A node, when all its ends are there."""
        kind, links = self.kind(number), self.ends.links[self.ends.of_node(number)].tolist()
        slots = [Slot(link, *place) for link, place in zip(links, kind.places, strict=True)]
        return Node(self.ops[number], self.carried.get(number), kind.ways, kind.seconds, slots)

    def link(self, number: int) -> Link:
        """A link, when all its ends are there."""
        value, (maker, *readers) = self.values[number], self.ends_of(number)
        return Link(value, self.types[value], maker, readers, is_shared=len(readers) > 1)

    def ends_of(self, link: int) -> list[End]:
        """The ends of a link, when all are there: whoever makes it first."""
        ends, here = self.ends, self.ends.of_link(link)
        return list(zip(ends.nodes[here].tolist(), ends.places[here].tolist(), strict=True))

    def kind(self, node: int) -> Kind:
        """The kind of a node."""
        return self.kinds[self.kind_of[node]]

    def read_inside(self) -> list[Link]:
        """The values that are read in a region which stands where they were made."""
        if len(self.scopes) < 2:
            return []
        links = map(self.link, range(len(self.values)))
        return [
            link for link in links if any(self.place(end).scope != self.place(link.maker).scope for end in link.readers)
        ]

    def place(self, end: End) -> Place:
        """What is at an end."""
        node, place = end
        return self.kind(node).places[place]

    def layout(self, end: End, ways: Sequence[int]) -> TensorSharding:
        """How a value lies at an end, with the way of every node chosen."""
        place = self.place(end)
        layout: TensorSharding = place.layouts[place.of_way[ways[end[0]]]]
        return layout
