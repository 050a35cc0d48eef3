"""The choice graph of a program: a node for every op and every value that loops carry, a link for every value.

Ops of one signature that were decided alike, and read values of which all that matters is the same, are nodes of one
kind: only the first of them is looked at, and of all others their links are told.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.graph import Block, Graph, Op
from shardwright.partition.decisions import AtUses, Computed, Decisions, Layout, PassedOn
from shardwright.partition.joined_axes import Groups, axes_together
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.op_split import filled
from shardwright.partition.proposals import Source
from shardwright.partition.search.all_ways import AllWays, Layouts, Seconds, Together, all_ways, numbered
from shardwright.partition.search.as_decided import Decided
from shardwright.partition.search.graph import ChoiceGraph, Scope
from shardwright.partition.search.held import Most, is_held, most_of
from shardwright.partition.search.layouts import layouts_of
from shardwright.partition.search.listed import are_many
from shardwright.partition.search.outline import Kind, Outline, Place
from shardwright.partition.search.total import computed_cost
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.targets import Targets
from shardwright.partition.ways import Way, sets_together
from shardwright.rules.traits import facts_of
from shardwright.sharding import Partial, TensorSharding, replicated

__all__ = ["choice_graph", "outline"]


_NO_LINK = -1
"""In the place of a link: of a value that any device can make, and of what is no tensor."""


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
        decisions: What was decided of it.
        times: How often each of its ops runs.
        most_held: See `outline`.
        targets: What the program asks for, if that is known.
    """
    return outline(Decided(graph, decisions, times), most_held, targets).graph


def outline(decided: Decided, most_held: Most = math.inf, targets: Targets | None = None) -> Outline:
    """The choice graph of a propagated program in outline.

    Arguments:
        decided: The program, and what was decided of it: what has one way here has it from there.
        most_held: Bytes that a device may hold of a tensor, or of each, in a layout that is not decided already.
        targets: What the program asks for, if that is known.
    """
    return _Builder(decided, most_held, targets or Targets(decided.graph)).run()


_Matters = tuple[tuple[tuple[Partial, ...], ...], bool]
"""How a value may be partial when it is made, and whether it is read once."""


class _Alike(NamedTuple):
    """What is added for each of the ops that are alike.

    Attributes:
        kind: The kind of its node.
        reads: Which of its operands have links.
        makes: Which of its results are links, each with the number of what may matter to an op that reads it.
    """

    kind: int
    reads: tuple[int, ...]
    makes: tuple[tuple[int, int], ...]


class _Builder:
    def __init__(self, decided: Decided, most_held: Most, targets: Targets) -> None:
        self.graph = graph = decided.graph
        self.most_held = most_held
        self.targets = targets
        self.arguments = decided.decisions.arguments
        self.hardware = current_hardware()
        self.together = self.axes_together()
        self.decisions = decided.of_op
        self.lying = dict(zip(decided.ops, decided.lying, strict=True))
        self.times = dict(zip(decided.ops, decided.times, strict=True))
        self.made = Outline(graph.types)
        self.scope = -1
        self.link_of = [_NO_LINK] * len(graph.types)  # by value
        self.read_from = [0] * len(graph.types)  # by value, the number of what may matter to an op that reads it
        self.matters: list[_Matters] = [((), False)]  # by these numbers: nothing of what has no link
        self.numbers: dict[_Matters, int] = {}
        self.known: dict[Hashable, tuple[AllWays, Seconds] | None] = {}  # of ops that are alike
        self.kinds: dict[Hashable, int] = {}
        self.seconds: dict[Hashable, Seconds] = {}
        self.made_in: dict[tuple[int, bool], int] = {}  # of values, by the object that lists layouts, and if read once
        self.by_itself: dict[int, tuple[Layout, Layouts]] = {}  # by object, which is kept: what has no other layout
        self.alike: dict[Hashable, _Alike] = {}  # of ops in one scope

    def axes_together(self) -> Groups:
        """The axes by those that are not told apart; none where there is no need for that."""
        mesh = self.targets.mesh
        if not are_many(max([type.rank for type in self.graph.types if type.is_tensor], default=0), mesh):
            return ()
        groups = axes_together(filter(None, self.graph.shardings), mesh)
        return groups if len(groups) < len(mesh.sizes) else ()

    def run(self) -> Outline:
        self.block(None, self.graph.main.block, self.arguments)
        return self.made

    def block(self, op: Op | None, block: Block, arguments: tuple[Layout, ...]) -> None:
        """Add a region: its arguments and all its ops."""
        outer = self.scope, self.alike
        self.enter(op, block, outer[0] if op else None)
        self.fixed(None, ((), ()), (block.arguments, arguments))
        self.ops(block.ops)
        self.scope, self.alike = outer

    def enter(self, op: Op | None, block: Block, outer: int | None) -> None:
        """Go on in a scope of its own."""
        self.scope, self.alike = len(self.made.scopes), {}
        self.made.scopes.append(Scope(outer, op, self.times[block.terminator]))

    def loop(self, op: Op, decision: Computed) -> None:
        """Add a loop: what it carries may lie in any layout, the same all the way round."""
        condition, body = op.regions
        carried = [self.carried(op, number, layout) for number, layout in enumerate(decision.results)]
        for (node, layouts), value in zip(carried, op.operands, strict=True):
            self.reads(node, value, numbered([self.reached(value, layout) for layout in layouts]))
        outer = self.scope, self.alike
        for region in op.regions:
            self.enter(op, region, outer[0])
            for (node, layouts), value in zip(carried, region.arguments, strict=True):
                self.makes(node, value, numbered(layouts))
            self.ops(region.ops[:-1])
            if region is condition:
                self.ops(region.ops[-1:])
                continue
            for (node, layouts), value in zip(carried, body.terminator.operands, strict=True):
                self.reads(node, value, numbered([self.reached(value, layout) for layout in layouts]))
        self.scope, self.alike = outer
        for (node, layouts), value in zip(carried, op.results, strict=True):
            self.makes(node, value, numbered(layouts))

    def carried(self, op: Op, number: int, layout: Layout) -> tuple[int, Sequence[Layout]]:
        """A node of all layouts in which a value may be carried round, and these."""
        type = self.graph.types[op.results[number]]
        layouts: tuple[Layout, ...] = (layout,)
        if layout is not None and type.is_tensor and 0 not in type.dims:
            most = most_of(self.most_held, op.results[number])
            every = layouts_of(type, layout, self.together)
            layouts = tuple([one for one in every if one == layout or is_held(type, one, most)])
        return self.node(op, np.zeros(len(layouts)), number), layouts

    def ops(self, ops: Sequence[Op]) -> None:
        """Add ops in order; those of which all is as it was of one before them as that one."""
        made, known, lying, link_of, read_from = self.made, self.alike, self.lying, self.link_of, self.read_from
        values, end_nodes, end_links = made.values, made.end_nodes, made.end_links
        asked, matters = self.targets.alike.__getitem__, read_from.__getitem__
        for op in ops:
            operands, results = op.operands, op.results
            key = id(op.signature), lying[op], *map(asked, results), *map(matters, operands)
            alike = known.get(key)
            if alike is None:
                alike = self.op(op)
                if alike is None:  # it is added
                    continue
                known[key] = alike
            node = len(made.ops)
            made.ops.append(op)
            made.kind_of.append(alike.kind)
            for place in alike.reads:
                end_nodes.append(node)
                end_links.append(link_of[operands[place]])
            for place, number in alike.makes:
                value = results[place]
                link_of[value] = link = len(values)
                read_from[value] = number
                values.append(value)
                end_nodes.append(node)
                end_links.append(link)

    def op(self, op: Op) -> _Alike | None:
        """What is to be added for an op that can be split; all others are added with their regions. Bodies of manual
        computations are seen from outside only.
        """
        match decision := self.decisions[op]:
            case Computed() if op.name == "stablehlo.while":
                self.loop(op, decision)
            case Computed():
                if (found := self.ways(op, decision)) is not None:
                    return self.split(op, *found)
                self.fixed(op, (op.operands, decision.operands), (op.results, decision.results))
                for region in op.regions if op.name != "sdy.manual_computation" else ():
                    self.block(op, region, decision.results if region.arguments else ())
            case AtUses():
                scalars = [replicated(self.targets.mesh, self.graph.types[value].rank) for value in op.operands]
                self.fixed(op, (op.operands, scalars), ((), ()))
            case PassedOn():
                self.passed_on(op)
        return None

    def passed_on(self, op: Op) -> None:
        """A request for a layout reads a value, and is that; a named computation is its body."""
        if not op.regions:
            self.fixed(op, (op.operands, self.targets.of(op.results)), ((), ()))
            self.same(op.results, op.operands)
            return
        (body,) = op.regions
        self.same(body.arguments, op.operands)
        self.ops(body.ops[:-1])
        self.same(op.results, body.terminator.operands)

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
            cost = computed_cost(op.signature, tuple(read[1]), tuple(made[1]), self.hardware)
            seconds = self.times[op] * price(cost, self.hardware)
        node = self.node(op, np.array([seconds]))
        for value, layout in zip(*read, strict=True):
            self.reads(node, value, self.alone(self.reached(value, layout)))
        for value, layout in zip(*made, strict=True):
            self.makes(node, value, self.alone(layout))

    def alone(self, layout: Layout) -> Layouts:
        """The layouts of what lies in one only."""
        key = id(layout)
        if key not in self.by_itself:
            self.by_itself[key] = layout, numbered([layout])
        return self.by_itself[key][1]

    def reached(self, value: int, layout: Layout) -> Layout:
        """From where contributions are made of what is complete, which sends nothing."""
        has_link = self.link_of[value] != _NO_LINK
        if not has_link or layout is None or not layout.partial or layout.partial in self.partials(value):
            return layout
        return layout.with_axes(layout.axes)

    def split(self, op: Op, all: AllWays, seconds: Seconds) -> _Alike:
        """What is to be added for an op with all ways in which it can be split."""
        link_of, types, uses = self.link_of, self.graph.types, self.targets.uses
        reads = tuple(
            [i for i, value in enumerate(op.operands) if link_of[value] != _NO_LINK and all.operands[i].layouts]
        )
        makes = tuple(
            [
                (i, self.number(made.layouts, value))
                for i, (value, made) in enumerate(zip(op.results, all.results, strict=True))
                if made.layouts and 0 not in types[value].dims and uses[value]
            ]
        )
        key = id(all), id(seconds), self.scope, reads, tuple([place for place, _ in makes])
        kind = self.kinds.get(key)
        if kind is None:
            ends = [*[all.operands[place] for place in reads], *[all.results[place] for place, _ in makes]]
            kind = self.kinds[key] = self.kind(all.ways, seconds, [Place(self.scope, *one) for one in ends])
        return _Alike(kind, reads, makes)

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

    def ways(self, op: Op, decision: Computed) -> tuple[AllWays, Seconds] | None:
        """The ways to split an op that the mesh allows, and what each takes as often as it runs; `None` where that is
        not to be chosen. They are the same objects for ops that are alike.
        """
        layouts = *decision.operands, *decision.results, *self.targets.of(op.results)
        key = id(op.signature), self.times[op], *map(id, layouts), *map(self.read_from.__getitem__, op.operands)
        if key not in self.known:
            self.known[key] = None
            if self.has_ways(op, decision):
                all = self.all_ways(op, decision)
                runs = id(all), self.times[op]
                seconds = self.seconds[runs] = self.seconds.get(runs, self.times[op] * all.seconds)
                self.known[key] = all, seconds
        return self.known[key]

    def all_ways(self, op: Op, decision: Computed) -> AllWays:
        """The ways to split an op that the mesh allows."""
        splits = splits_of(op.signature)
        assert splits is not None
        read = zip(op.operands, decision.operands, strict=True)
        sources = tuple([(layout,) if layout and self.link_of[value] != _NO_LINK else () for value, layout in read])
        asked = filled(self.targets.of(op.results), self.targets.mesh)
        passing = tuple(self.partial_operands(op, splits, sources))
        decided = decision.operands, decision.results
        most = tuple([most_of(self.most_held, value) for value in (*op.operands, *op.results)])
        return all_ways(op.signature, sources, asked, passing, decided, most, self.hardware, self.together)

    def partial_operands(self, op: Op, splits: Splits, sources: tuple[Source, ...]) -> Iterator[Together]:
        """Operands that may be parts of sums together, which pass through the op, and along which axes."""
        for together, _ in sets_together(splits):
            values = [op.operands[i] for i in together]
            if not all(sources[i] and self.targets.uses[op.operands[i]] == 1 for i in together):
                continue
            for partial in self.partials(values[0]):
                if all(partial in self.partials(value) for value in values) and all(p.kind == "sum" for p in partial):
                    yield together, partial

    # --- links

    def same(self, values: Sequence[int], others: Sequence[int]) -> None:
        """Values that are other ones."""
        for value, other in zip(values, others, strict=True):
            self.link_of[value] = self.link_of[other]
            if self.link_of[other] != _NO_LINK:
                self.read_from[value] = self.number_of(self.partials(other), value)

    def partials(self, value: int) -> tuple[tuple[Partial, ...], ...]:
        """How a value with a link may be partial when it is made."""
        return self.matters[self.read_from[value]][0]

    def number(self, layouts: tuple[TensorSharding, ...], value: int) -> int:
        """The number of what may matter of a value that is made in these layouts to an op that reads it."""
        key = id(layouts), self.targets.uses[value] == 1
        number = self.made_in.get(key)
        if number is None:
            partials = tuple(dict.fromkeys(layout.partial for layout in layouts if layout.partial))
            number = self.made_in[key] = self.number_of(partials, value)
        return number

    def number_of(self, partials: tuple[tuple[Partial, ...], ...], value: int) -> int:
        """The number of how a value may be partial, and whether it is read once."""
        matters = partials, self.targets.uses[value] == 1
        number = self.numbers.setdefault(matters, len(self.matters))
        if number == len(self.matters):
            self.matters.append(matters)
        return number

    def makes(self, node: int, value: int, layouts: Layouts) -> None:
        if not layouts.layouts or 0 in self.graph.types[value].dims or not self.targets.uses[value]:
            return
        self.link_of[value], self.read_from[value] = len(self.made.values), self.number(layouts.layouts, value)
        self.made.values.append(value)
        self.end(node, value, layouts)

    def reads(self, node: int, value: int, layouts: Layouts) -> None:
        if self.link_of[value] != _NO_LINK and layouts.layouts:
            self.end(node, value, layouts)

    def end(self, node: int, value: int, layouts: Layouts) -> None:
        """An end of the link of a value at a node of its own kind."""
        made = self.made
        made.kinds[made.kind_of[node]].places.append(Place(self.scope, *layouts))
        made.end_nodes.append(node)
        made.end_links.append(self.link_of[value])
