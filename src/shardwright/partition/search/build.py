"""The choice graph of a program: a node for every op and every value that loops carry, a link for every value."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.graph import Block, Graph, Op
from shardwright.partition.decisions import AtUses, Computed, Decisions, Layout, PassedOn
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.op_split import filled
from shardwright.partition.proposals import Source
from shardwright.partition.search.all_ways import AllWays, Layouts, Seconds, Together, all_ways, numbered
from shardwright.partition.search.graph import ChoiceGraph, Link, Node, Scope, Slot
from shardwright.partition.search.held import Most, is_held, most_of
from shardwright.partition.search.layouts import layouts_of
from shardwright.partition.search.total import computed_cost
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.targets import Targets
from shardwright.partition.ways import Way
from shardwright.rules.traits import facts_of
from shardwright.sharding import Partial, replicated

__all__ = ["choice_graph"]


def choice_graph(
    graph: Graph,
    decisions: Decisions,
    times: Sequence[float],
    most_held: Most = math.inf,
    targets: Targets | None = None,
) -> ChoiceGraph:
    """The choice graph of a propagated program.

    Arguments:
        graph: The program.
        decisions: What was decided of it: what has one way here has it from there.
        times: How often each op runs.
        most_held: Bytes that a device may hold of a tensor, or of each, in a layout that is not decided already.
        targets: What the program asks for, if that is known.
    """
    return _Builder(graph, decisions, times, most_held, targets or Targets(graph)).run()


class _Builder:
    def __init__(
        self, graph: Graph, decisions: Decisions, times: Sequence[float], most_held: Most, targets: Targets
    ) -> None:
        self.graph = graph
        self.most_held = most_held
        self.targets = targets
        self.arguments = decisions.arguments
        self.hardware = current_hardware()
        ops = graph.walk()
        self.decisions = dict(zip(ops, decisions.ops, strict=True))
        self.times = dict(zip(ops, times, strict=True))
        self.made = ChoiceGraph([], [], [])
        self.scope = -1
        self.link_of: dict[int, int] = {}  # by value
        self.same: dict[int, int] = {}  # values that are others
        self.known: dict[Hashable, tuple[AllWays, Seconds] | None] = {}  # of ops that are alike
        self.seconds: dict[Hashable, Seconds] = {}
        self.partial: dict[int, tuple[tuple[Partial, ...], ...]] = {}  # by the object that lists layouts
        self.read: dict[int, tuple[Hashable, bool] | None] = {}  # what `read_from` said of values

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
            most = most_of(self.most_held, op.results[number])
            layouts = tuple([one for one in layouts_of(type, layout) if one == layout or is_held(type, one, most)])
        return self.node(op, (), np.zeros(len(layouts)), number), layouts

    def op(self, op: Op) -> None:
        """Add an op and its regions; bodies of manual computations are seen from outside only."""
        match decision := self.decisions[op]:
            case Computed() if op.name == "stablehlo.while":
                self.loop(op, decision)
            case Computed():
                if (found := self.ways(op, decision)) is not None:
                    self.split(op, *found)
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

    def split(self, op: Op, all: AllWays, seconds: Seconds) -> None:
        """A node of all ways in which an op can be split."""
        node = self.node(op, all.ways, seconds)
        links, slots, scope = self.made.links, self.made.nodes[node].slots, self.scope
        for value, (layouts, of_way) in zip(op.operands, all.operands, strict=True):  # most of what is read at all
            link = self.link(value)
            if link is not None and layouts:
                links[link].readers.append((node, len(slots)))
                slots.append(Slot(link, scope, layouts, of_way))
        for value, made in zip(op.results, all.results, strict=True):
            self.makes(node, value, made)

    def node(self, op: Op | None, ways: tuple[Way, ...], seconds: Seconds, carried: int | None = None) -> int:
        self.made.nodes.append(Node(op, carried, ways, seconds))
        return len(self.made.nodes) - 1

    def ways(self, op: Op, decision: Computed) -> tuple[AllWays, Seconds] | None:
        """The ways to split an op that the mesh allows, and what each takes as often as it runs; `None` where that is
        not to be chosen. They are the same objects for ops that are alike.
        """
        layouts = *decision.operands, *decision.results, *self.targets.of(op.results)
        key = id(op.signature), self.times[op], *map(id, layouts), *map(self.read_from, op.operands)
        if key not in self.known:
            self.known[key] = None
            if self.has_ways(op, decision):
                all = self.all_ways(op, decision)
                runs = id(all), self.times[op]
                seconds = self.seconds[runs] = self.seconds.get(runs, self.times[op] * all.seconds)
                self.known[key] = all, seconds
        return self.known[key]

    def read_from(self, value: int) -> tuple[Hashable, bool] | None:
        """What may matter of a value to an op that reads it, besides how it lies."""
        if value not in self.read:
            link = self.link(value)
            self.read[value] = None if link is None else (self.partials(link), self.targets.uses[value] == 1)
        return self.read[value]

    def all_ways(self, op: Op, decision: Computed) -> AllWays:
        """The ways to split an op that the mesh allows."""
        splits = splits_of(op.signature)
        assert splits is not None
        read = zip(op.operands, decision.operands, strict=True)
        sources = tuple([(layout,) if layout and self.link(value) is not None else () for value, layout in read])
        asked = filled(self.targets.of(op.results), self.targets.mesh)
        passing = tuple(self.partial_operands(op, splits, sources))
        decided = decision.operands, decision.results
        most = tuple([most_of(self.most_held, value) for value in (*op.operands, *op.results)])
        return all_ways(op.signature, sources, asked, passing, decided, most, self.hardware)

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
        link = self.link_of.get(value)
        while link is None and value in self.same:
            value = self.same[value]
            link = self.link_of.get(value)
        return link

    def partials(self, link: int | None) -> tuple[tuple[Partial, ...], ...]:
        """How the value of a link may be partial when it is made."""
        assert link is not None
        layouts = self.made.slot(self.made.links[link].maker).layouts
        known = self.partial.get(id(layouts))
        if known is None:
            found = dict.fromkeys(layout.partial for layout in layouts if layout.partial)
            known = self.partial[id(layouts)] = tuple(found)
        return known

    def makes(self, node: int, value: int, layouts: Layouts) -> None:
        if not layouts.layouts or 0 in self.graph.types[value].dims or not self.targets.uses[value]:
            return
        slots, links = self.made.nodes[node].slots, self.made.links
        self.link_of[value] = link = len(links)
        links.append(Link(value, self.graph.types[value], (node, len(slots))))
        slots.append(Slot(link, self.scope, layouts.layouts, layouts.of_way))

    def reads(self, node: int, value: int, layouts: Layouts) -> None:
        link = self.link(value)
        if link is not None and layouts.layouts:
            slots = self.made.nodes[node].slots
            self.made.links[link].readers.append((node, len(slots)))
            slots.append(Slot(link, self.scope, layouts.layouts, layouts.of_way))
