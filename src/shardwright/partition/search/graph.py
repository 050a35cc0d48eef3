"""The choice graph of a program: its ops, each with all the ways in which it can be split, and the values between them.

A *node* is an op with its ways, each with the seconds that it takes by itself, as often as the op runs. A *link* is a
value: whoever makes it decides in which layout it is there first, and everybody who reads it in which other it must be
there. A value that a loop carries round is a node as well: it lies alike in front of the loop, in it and behind it.
What is decided elsewhere has one way: how arguments come and results are returned, requests for a layout, what branches
give, and computations that are manual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.types import TensorType
from shardwright.partition.decisions import AtUses, Computed, Decisions, Layout, PassedOn
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.op_split import filled
from shardwright.partition.proposals import Source
from shardwright.partition.search.all_ways import (
    AllWays,
    Layouts,
    Numbers,
    Seconds,
    Together,
    all_ways,
    numbered,
)
from shardwright.partition.search.held import is_held
from shardwright.partition.search.layouts import layouts_of
from shardwright.partition.search.total import computed_cost
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.targets import Targets
from shardwright.partition.ways import Way
from shardwright.rules.traits import facts_of
from shardwright.sharding import Partial, TensorSharding, replicated

__all__ = ["ChoiceGraph", "End", "Link", "Node", "Numbers", "Scope", "Seconds", "Slot", "choice_graph"]


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
    """

    link: int
    scope: int
    layouts: tuple[TensorSharding, ...]
    of_way: Numbers
    share: float = 1.0


@dataclass(slots=True)
class Node:
    """An op, a value that a loop carries round, or what stands for the program's callers.

    Attributes:
        op: The op, if it is one; of a value that is carried its loop.
        carried: Which of the values that the loop carries, if it is one.
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
    """

    value: int
    type: TensorType
    maker: End
    readers: list[End] = field(default_factory=list)
    times: int = 1


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

    def layouts(self, link: Link) -> list[TensorSharding]:
        """The layouts of a value at all of its ends, each once."""
        graph = self.whole or self
        return list(dict.fromkeys(layout for end in (link.maker, *link.readers) for layout in graph.slot(end).layouts))

    def slot(self, end: End) -> Slot:
        """The slot of an end."""
        node, slot = end
        return self.nodes[node].slots[slot]

    def around(self, link: Link, scope: int) -> list[int]:
        """A scope in which a value is read, and those around it in which it is there: a version may be made in each."""
        outermost, found = self.slot(link.maker).scope, [scope]
        while found[-1] != outermost:
            parent = self.scopes[found[-1]].parent
            assert parent is not None, "what is read was made in a scope around"
            found.append(parent)
        return found

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


def _restricted(slot: Slot, ways: Numbers) -> Slot:
    numbers, of_way = np.unique(slot.of_way[ways], return_inverse=True)
    return replace(slot, layouts=tuple([slot.layouts[number] for number in numbers]), of_way=of_way)


def choice_graph(
    graph: Graph, decisions: Decisions, times: Sequence[float], most_held: float = math.inf
) -> ChoiceGraph:
    """The choice graph of a propagated program.

    Arguments:
        graph: The program.
        decisions: What was decided of it: what has one way here has it from there.
        times: How often each op runs.
        most_held: Bytes that a device may hold of a tensor, in a layout that is not decided already.
    """
    return _Builder(graph, decisions, times, most_held).run()


class _Builder:
    def __init__(self, graph: Graph, decisions: Decisions, times: Sequence[float], most_held: float) -> None:
        self.graph = graph
        self.most_held = most_held
        self.targets = Targets(graph)
        self.arguments = decisions.arguments
        self.hardware = current_hardware()
        ops = graph.walk()
        self.decisions = dict(zip(ops, decisions.ops, strict=True))
        self.times = dict(zip(ops, times, strict=True))
        self.made = ChoiceGraph([], [], [])
        self.scope = -1
        self.link_of: dict[int, int] = {}  # by value
        self.same: dict[int, int] = {}  # values that are others

    def run(self) -> ChoiceGraph:
        self.block(None, self.graph.main.block, self.arguments)
        return self.made

    def block(self, op: Op | None, block: Block, arguments: tuple[Layout, ...]) -> None:
        """Add a region: its arguments and all its ops."""
        outer = self.scope
        self.scope = len(self.made.scopes)
        self.made.scopes.append(Scope(outer if op else None, op, self.times[block.terminator]))
        self.fixed(None, ((), ()), (block.arguments, arguments))
        for inner in block.ops:
            self.op(inner)
        self.scope = outer

    def loop(self, op: Op, decision: Computed) -> None:
        """Add a loop: what it carries may lie in any layout, the same all the way round."""
        condition, body = op.regions
        carried = [self.carried(op, number, layout) for number, layout in enumerate(decision.results)]
        for (node, layouts), value in zip(carried, op.operands, strict=True):
            self.reads(node, value, numbered([self.reached(value, layout) for layout in layouts]))
        outer = self.scope
        for region in op.regions:
            self.scope = len(self.made.scopes)
            self.made.scopes.append(Scope(outer, op, self.times[region.terminator]))
            for (node, layouts), value in zip(carried, region.arguments, strict=True):
                self.makes(node, value, numbered(layouts))
            for inner in region.ops[:-1]:
                self.op(inner)
            if region is condition:
                self.op(region.terminator)
                continue
            for (node, layouts), value in zip(carried, body.terminator.operands, strict=True):
                self.reads(node, value, numbered([self.reached(value, layout) for layout in layouts]))
        self.scope = outer
        for (node, layouts), value in zip(carried, op.results, strict=True):
            self.makes(node, value, numbered(layouts))

    def carried(self, op: Op, number: int, layout: Layout) -> tuple[int, Sequence[Layout]]:
        """A node of all layouts in which a value may be carried round, and these."""
        type = self.graph.types[op.results[number]]
        layouts: tuple[Layout, ...] = (layout,)
        if layout is not None and type.is_tensor and 0 not in type.dims:
            layouts = tuple(
                [one for one in layouts_of(type, layout) if one == layout or is_held(type, one, self.most_held)]
            )
        return self.node(op, (), np.zeros(len(layouts)), number), layouts

    def op(self, op: Op) -> None:
        """Add an op and its regions; bodies of manual computations are seen from outside only."""
        match decision := self.decisions[op]:
            case Computed() if op.name == "stablehlo.while":
                self.loop(op, decision)
            case Computed():
                if self.has_ways(op, decision):
                    self.split(op, decision)
                    return
                self.fixed(op, (op.operands, decision.operands), (op.results, decision.results))
                for region in op.regions if op.name != "sdy.manual_computation" else ():
                    self.block(op, region, decision.results if region.arguments else ())
            case AtUses():
                scalars = [replicated(self.targets.mesh, self.graph.types[value].rank) for value in op.operands]
                self.fixed(op, (op.operands, scalars), ((), ()))
            case PassedOn():
                self.passed_on(op)

    def passed_on(self, op: Op) -> None:
        """A request for a layout reads a value, and is that; a named computation is its body."""
        if not op.regions:
            self.fixed(op, (op.operands, self.targets.of(op.results)), ((), ()))
            self.same.update(zip(op.results, op.operands, strict=True))
            return
        (body,) = op.regions
        self.same.update(zip(body.arguments, op.operands, strict=True))
        for inner in body.ops[:-1]:
            self.op(inner)
        self.same.update(zip(op.results, body.terminator.operands, strict=True))

    def has_ways(self, op: Op, decision: Computed) -> bool:
        """Whether it is to be chosen how an op is split."""
        if op.regions or not op.results or facts_of(op.name).refused or op.name == "stablehlo.optimization_barrier":
            return False
        if is_at_boundary(op.signature, decision.operands, decision.results):
            return False
        return splits_of(op.signature) is not None and None not in (*decision.operands, *decision.results)

    # --- nodes

    def fixed(
        self,
        op: Op | None,
        read: tuple[Sequence[int], Sequence[Layout]],
        made: tuple[Sequence[int], Sequence[Layout]],
    ) -> None:
        """A node of one way."""
        seconds = 0.0
        if op is not None and made[0]:
            cost = computed_cost(op.signature, tuple(read[1]), tuple(made[1]))
            seconds = self.times[op] * price(cost, self.hardware)
        node = self.node(op, (), np.array([seconds]))
        for value, layout in zip(*read, strict=True):
            self.reads(node, value, numbered([self.reached(value, layout)]))
        for value, layout in zip(*made, strict=True):
            self.makes(node, value, numbered([layout]))

    def reached(self, value: int, layout: Layout) -> Layout:
        """From where contributions are made of what is complete, which sends nothing."""
        link = self.link(value)
        if link is None or layout is None or not layout.partial or layout.partial in self.partials(link):
            return layout
        return layout.with_axes(layout.axes)

    def split(self, op: Op, decision: Computed) -> None:
        """A node of all ways in which an op can be split."""
        all = self.ways(op, decision)
        node = self.node(op, all.ways, self.times[op] * all.seconds)
        for value, layouts in zip(op.operands, all.operands, strict=True):
            self.reads(node, value, layouts)
        for value, layouts in zip(op.results, all.results, strict=True):
            self.makes(node, value, layouts)

    def node(self, op: Op | None, ways: tuple[Way, ...], seconds: Seconds, carried: int | None = None) -> int:
        self.made.nodes.append(Node(op, carried, ways, seconds))
        return len(self.made.nodes) - 1

    def ways(self, op: Op, decision: Computed) -> AllWays:
        """The ways to split an op that the mesh allows."""
        splits = splits_of(op.signature)
        assert splits is not None
        read = zip(op.operands, decision.operands, strict=True)
        sources = tuple([(layout,) if layout and self.link(value) is not None else () for value, layout in read])
        asked = filled(self.targets.of(op.results), self.targets.mesh)
        passing = tuple(self.partial_operands(op, splits, sources))
        decided = decision.operands, decision.results
        return all_ways(op.signature, sources, asked, passing, decided, self.most_held, self.hardware)

    def partial_operands(self, op: Op, splits: Splits, sources: tuple[Source, ...]) -> Iterator[Together]:
        """Operands that may be parts of sums together, which pass through the op, and along which axes."""
        for together in splits.linear if splits.kind == "sum" else ():
            links = [self.link(op.operands[i]) for i in together]
            if None in links or not all(sources[i] and self.targets.uses[op.operands[i]] == 1 for i in together):
                continue
            for partial in self.partials(links[0]):
                if all(partial in self.partials(link) for link in links) and all(p.kind == "sum" for p in partial):
                    yield together, partial

    # --- links

    def link(self, value: int) -> int | None:
        """The link of a value; `None` of what any device can make, and of what is no tensor."""
        while value in self.same:
            value = self.same[value]
        return self.link_of.get(value)

    def partials(self, link: int | None) -> dict[tuple[Partial, ...], None]:
        """How the value of a link may be partial when it is made."""
        assert link is not None
        layouts = self.made.slot(self.made.links[link].maker).layouts
        return dict.fromkeys(layout.partial for layout in layouts if layout.partial)

    def makes(self, node: int, value: int, layouts: Layouts) -> None:
        if not layouts.layouts or 0 in self.graph.types[value].dims or not self.targets.uses[value]:
            return
        slots = self.made.nodes[node].slots
        self.link_of[value] = len(self.made.links)
        self.made.links.append(Link(value, self.graph.types[value], (node, len(slots))))
        slots.append(Slot(self.link_of[value], self.scope, *layouts))

    def reads(self, node: int, value: int, layouts: Layouts) -> None:
        link = self.link(value)
        if link is not None and layouts.layouts:
            slots = self.made.nodes[node].slots
            self.made.links[link].readers.append((node, len(slots)))
            slots.append(Slot(link, self.scope, *layouts))
