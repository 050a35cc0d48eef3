"""An outline while it is made: nodes and their kinds, and the links between who makes a value and who reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwright.ir.graph import Graph, Op
from shardwright.partition.decisions import Layout
from shardwright.partition.search.all_ways import Layouts, Seconds, numbered
from shardwright.partition.search.outline import Kind, Outline, Place
from shardwright.partition.targets import Targets
from shardwright.partition.ways import Way
from shardwright.sharding import Partial, TensorSharding

__all__ = ["NO_LINK", "Alike", "Linking"]

NO_LINK = -1
"""In the place of a link: of a value that any device can make, and of what is no tensor."""

_Matters = tuple[tuple[tuple[Partial, ...], ...], bool]
"""How a value may be partial when it is made, and whether it is read once."""


class Alike(NamedTuple):
    """What is added for each of the ops that are alike.

    Attributes:
        kind: The kind of its node.
        reads: Which of its operands have links.
        makes: Which of its results are links, each with the number of what may matter to an op that reads it.
    """

    kind: int
    reads: tuple[int, ...]
    makes: tuple[tuple[int, int], ...]


class Linking:
    """An outline to which nodes are added in the order of the program.

    Attributes:
        graph: The program.
        targets: What it asks for.
        made: The outline.
        scope: The scope in which nodes are added.
        link_of: For each value its link, or `NO_LINK`.
        read_from: For each value the number of what may matter to an op that reads it.
    """

    def __init__(self, graph: Graph, targets: Targets) -> None:
        """Nothing of a program yet."""
        self.graph = graph
        self.targets = targets
        self.made = Outline(graph.types)
        self.scope = -1
        self.link_of = [NO_LINK] * len(graph.types)
        self.read_from = [0] * len(graph.types)
        self._matters: list[_Matters] = [((), False)]  # by these numbers: nothing of what has no link
        self._numbers: dict[_Matters, int] = {}
        self._made_in: dict[tuple[int, bool], int] = {}  # of values, by the object that lists layouts, and if read once
        self._by_itself: dict[int, tuple[Layout, Layouts]] = {}  # by object, which is kept: what has no other layout

    # --- nodes

    def kind(self, ways: tuple[Way, ...], seconds: Seconds, places: list[Place]) -> int:
        """A new kind of nodes."""
        self.made.kinds.append(Kind(ways, seconds, places))
        return len(self.made.kinds) - 1

    def node(self, op: Op | None, seconds: Seconds, carried: int | None = None) -> int:
        """A node of its own kind, which has no ends yet."""
        made, number = self.made, len(self.made.ops)
        made.kind_of.append(self.kind((), seconds, []))
        made.ops.append(op)
        if carried is not None:
            made.carried[number] = carried
        return number

    def add(self, op: Op, alike: Alike) -> int:
        """A node of an op that is as others are."""
        made, link_of = self.made, self.link_of
        node, values = len(made.ops), made.values
        made.ops.append(op)
        made.kind_of.append(alike.kind)
        for place in alike.reads:
            made.end_nodes.append(node)
            made.end_links.append(link_of[op.operands[place]])
        for place, number in alike.makes:
            value = op.results[place]
            link_of[value] = link = len(values)
            self.read_from[value] = number
            values.append(value)
            made.end_nodes.append(node)
            made.end_links.append(link)
        return node

    # --- links

    def is_linked(self, value: int, layouts: Layouts) -> bool:
        """Whether a value that is made in these layouts is a link: one that is read, and has elements."""
        return bool(layouts.layouts) and 0 not in self.graph.types[value].dims and self.targets.uses[value] > 0

    def makes(self, node: int, value: int, layouts: Layouts) -> None:
        """A value that a node of its own kind makes in these layouts."""
        if not self.is_linked(value, layouts):
            return
        self.link_of[value], self.read_from[value] = len(self.made.values), self.number(layouts.layouts, value)
        self.made.values.append(value)
        self._end(node, value, layouts)

    def reads(self, node: int, value: int, layouts: Layouts) -> None:
        """A value that a node of its own kind reads in these layouts."""
        if self.link_of[value] != NO_LINK and layouts.layouts:
            self._end(node, value, layouts)

    def _end(self, node: int, value: int, layouts: Layouts) -> None:
        made = self.made
        made.kinds[made.kind_of[node]].places.append(Place(self.scope, *layouts))
        made.end_nodes.append(node)
        made.end_links.append(self.link_of[value])

    def same(self, values: Sequence[int], others: Sequence[int]) -> None:
        """Values that are other ones."""
        for value, other in zip(values, others, strict=True):
            self.link_of[value] = self.link_of[other]
            if self.link_of[other] != NO_LINK:
                self.read_from[value] = self._number_of(self.partials(other), value)

    # --- layouts

    def alone(self, layout: Layout) -> Layouts:
        """The layouts of what lies in one only."""
        key = id(layout)
        if key not in self._by_itself:
            self._by_itself[key] = layout, numbered([layout])
        return self._by_itself[key][1]

    def reached(self, value: int, layout: Layout) -> Layout:
        """From where contributions are made of what is complete, which sends nothing."""
        has_link = self.link_of[value] != NO_LINK
        if not has_link or layout is None or not layout.partial or layout.partial in self.partials(value):
            return layout
        return layout.with_axes(layout.axes)

    def partials(self, value: int) -> tuple[tuple[Partial, ...], ...]:
        """How a value with a link may be partial when it is made."""
        return self._matters[self.read_from[value]][0]

    def number(self, layouts: tuple[TensorSharding, ...], value: int) -> int:
        """The number of what may matter of a value that is made in these layouts to an op that reads it."""
        key = id(layouts), self.targets.uses[value] == 1
        number = self._made_in.get(key)
        if number is None:
            partials = tuple(dict.fromkeys(layout.partial for layout in layouts if layout.partial))
            number = self._made_in[key] = self._number_of(partials, value)
        return number

    def _number_of(self, partials: tuple[tuple[Partial, ...], ...], value: int) -> int:
        """The number of how a value may be partial, and whether it is read once."""
        matters = partials, self.targets.uses[value] == 1
        number = self._numbers.setdefault(matters, len(self._matters))
        if number == len(self._matters):
            self._matters.append(matters)
        return number
