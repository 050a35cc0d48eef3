"""The choice graph of a program: its ops, each with all the ways in which it can be split, and the values between them.

A *node* is an op with its ways, each with the seconds that it takes by itself, as often as the op runs. A *link* is a
value: whoever makes it decides in which layout it is there first, and everybody who reads it in which other it must be
there. A value that a loop carries round is a node as well: it lies alike in front of the loop, in it and behind it.
What is decided elsewhere has one way: how arguments come and results are returned, requests for a layout, what branches
give, and computations that are manual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shardwright.ir.graph import Op
from shardwright.ir.types import TensorType
from shardwright.partition.search.all_ways import Numbers, Seconds
from shardwright.partition.ways import Way
from shardwright.sharding import TensorSharding

__all__ = ["ChoiceGraph", "End", "Link", "Node", "Scope", "Slot", "scopes_around"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A region, or the program.

    Attributes:
        parent: The one that its op stands in, by number.
        op: The op of the region.
        runs: How often it does.
    """

    parent: int | None
    op: Op | None
    runs: float


@dataclass(slots=True)
class Slot:
    """An end of a link at a node.

    Attributes:
        link: The link, by number.
        scope: The scope in which the node makes or reads the value, by number.
        layouts: Those that the value may have here, each once.
        of_way: For each way of the node, the number of the layout.
        share: Which part of the nodes have it for which the node stands.
        numbers: In a graph with fewer ways, for each layout its number in the other one.
    """

    link: int
    scope: int
    layouts: tuple[TensorSharding, ...]
    of_way: Numbers
    share: float = 1.0
    numbers: Numbers | None = None


@dataclass(slots=True)
class Node:
    """An op, a value that a loop carries round, or what stands for the program's callers.

    Attributes:
        op: The op, if it is one; of a value that is carried its loop, of one that branches give or that waits these.
        carried: Which of the values that the loop carries, or that are given there, if it is one.
        ways: How the op can be split; none where that is not to be chosen.
        seconds: What each way takes by itself: of one there is always one.
        slots: Its ends of links: of values that it reads, and of those that it makes.
    """

    op: Op | None
    carried: int | None
    ways: tuple[Way, ...]
    seconds: Seconds
    slots: list[Slot] = field(default_factory=list)


End = tuple[int, int]
"""A node, and which of its slots."""


@dataclass(slots=True)
class Link:
    """A value that exists in one layout first.

    Attributes:
        value: The value.
        type: Its type.
        maker: Who makes it.
        readers: Who reads it, in order.
        times: For how many values that are alike it stands.
        is_shared: Whether several ends read the value, of which some may be as one here.
    """

    value: int
    type: TensorType
    maker: End
    readers: list[End] = field(default_factory=list)
    times: int = 1
    is_shared: bool = False


@dataclass(slots=True)
class ChoiceGraph:
    """Nodes in the order of the program, and the links between them.

    Attributes:
        nodes: The nodes.
        links: The links, by number.
        scopes: The scopes, by number.
        whole: The graph that this one is with fewer ways, if it is: versions may still lie as there.
    """

    nodes: list[Node]
    links: list[Link]
    scopes: list[Scope]
    whole: ChoiceGraph | None = None

    def least_alone(self) -> float:
        """What every choice takes at least, however values lie: what ops take by themselves."""
        return sum([float(node.seconds.min()) for node in self.nodes])

    def layouts(self, link: Link) -> list[TensorSharding]:
        """The layouts of a value at all of its ends, each once."""
        graph = self.whole or self
        return list(dict.fromkeys(layout for end in (link.maker, *link.readers) for layout in graph.slot(end).layouts))

    def slot(self, end: End) -> Slot:
        """The slot of an end."""
        node, slot = end
        return self.nodes[node].slots[slot]

    def layout(self, end: End, ways: Sequence[int]) -> TensorSharding:
        """How a value lies at an end, with the way of every node chosen."""
        slot = self.slot(end)
        layout: TensorSharding = slot.layouts[slot.of_way[ways[end[0]]]]
        return layout

    def around(self, link: Link, scope: int) -> list[int]:
        """A scope in which a value is read, and those around it in which it is there: a version may be made in each."""
        return scopes_around(self.scopes, scope, self.slot(link.maker).scope)

    def restricted(self, kept: Sequence[Numbers]) -> ChoiceGraph:
        """The graph in which nodes have these of their ways only, and slots the layouts of those."""
        nodes = [
            Node(
                node.op,
                node.carried,
                tuple([node.ways[way] for way in ways]) if node.ways else (),
                node.seconds[ways],
                [_restricted(slot, ways) for slot in node.slots],
            )
            for node, ways in zip(self.nodes, kept, strict=True)
        ]
        return ChoiceGraph(nodes, self.links, self.scopes, self.whole or self)


def scopes_around(scopes: Sequence[Scope], scope: int, outermost: int) -> list[int]:
    """A scope in which a value is read, and those around it up to the one in which it is made."""
    found = [scope]
    while found[-1] != outermost:
        parent = scopes[found[-1]].parent
        assert parent is not None, "what is read was made in a scope around"
        found.append(parent)
    return found


def _restricted(slot: Slot, ways: Numbers) -> Slot:
    of_ways = slot.of_way[ways]
    numbers, of_way = (of_ways, np.zeros(1, np.intp)) if ways.size == 1 else np.unique(of_ways, return_inverse=True)
    layouts = tuple([slot.layouts[number] for number in numbers])
    in_whole = numbers if slot.numbers is None else slot.numbers[numbers]
    return replace(slot, layouts=layouts, of_way=of_way, numbers=in_whole)
