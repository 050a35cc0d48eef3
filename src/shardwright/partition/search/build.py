"""The choice graph of a program: a node for every op, every value that loops carry, that branches give or that
waits at a barrier, and a link for every value.

Ops of one signature that were decided alike, and read values of which all that matters is the same, are nodes of one
kind: only the first of them is looked at, and of all others their links are told.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from shardwright.cost.hardware import current_hardware
from shardwright.cost.price import price
from shardwright.ir.graph import Block, Graph, Op
from shardwright.partition.decisions import AtUses, Computed, Decisions, Layout, PassedOn
from shardwright.partition.joined_axes import Groups, axes_together
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.op_split import filled
from shardwright.partition.proposals import Source
from shardwright.partition.search.all_ways import AllWays, Seconds, Together, all_ways, numbered
from shardwright.partition.search.as_decided import Decided, Ops
from shardwright.partition.search.graph import ChoiceGraph, Scope
from shardwright.partition.search.held import Most, is_held, most_of
from shardwright.partition.search.layouts import layouts_of
from shardwright.partition.search.linking import NO_LINK, Alike, Linking
from shardwright.partition.search.listed import are_many
from shardwright.partition.search.outline import Outline, Place
from shardwright.partition.search.total import computed_cost
from shardwright.partition.splits import Splits, splits_of
from shardwright.partition.targets import Targets
from shardwright.partition.ways import sets_together
from shardwright.rules.traits import facts_of
from shardwright.sharding import replicated

__all__ = ["choice_graph", "outline"]

_BRANCHES = ("stablehlo.case", "stablehlo.if")


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
    return outline(Decided(Ops(graph, times), decisions), most_held, targets).graph


def outline(decided: Decided, most_held: Most = math.inf, targets: Targets | None = None) -> Outline:
    """The choice graph of a propagated program in outline.

    Arguments:
        decided: The program, and what was decided of it: what has one way here has it from there.
        most_held: Bytes that a device may hold of a tensor, or of each, in a layout that is not decided already.
        targets: What the program asks for, if that is known.
    """
    return _Builder(decided, most_held, targets or Targets(decided.graph)).run()


class _Builder(Linking):
    def __init__(self, decided: Decided, most_held: Most, targets: Targets) -> None:
        super().__init__(decided.graph, targets)
        self.most_held = most_held
        self.arguments = decided.decisions.arguments
        self.hardware = current_hardware()
        self.together = self.axes_together()
        self.decisions = decided.of_op
        self.lying = dict(zip(decided.ops, decided.lying, strict=True))
        self.times = dict(zip(decided.ops, decided.times, strict=True))
        self.known: dict[Hashable, tuple[AllWays, Seconds] | None] = {}  # of ops that are alike
        self.kinds: dict[Hashable, int] = {}
        self.seconds: dict[Hashable, Seconds] = {}
        self.alike: dict[Hashable, Alike] = {}  # of ops in one scope
        self.waiting: dict[Hashable, Alike] = {}  # of values at barriers

    def axes_together(self) -> Groups:
        """The axes by those that are not told apart; none where there is no need for that."""
        mesh, types = self.targets.mesh, {id(type): type for type in self.graph.types}.values()
        if not are_many(max([type.rank for type in types if type.is_tensor], default=0), mesh):
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

    def branches(self, op: Op, decision: Computed) -> None:
        """Add branches: what they give may lie in any layout, the same of all."""
        self.fixed(op, (op.operands, decision.operands), ((), ()))
        given = [self.carried(op, number, layout) for number, layout in enumerate(decision.results)]
        outer = self.scope, self.alike
        for region in op.regions:
            self.enter(op, region, outer[0])
            self.ops(region.ops[:-1])
            for (node, layouts), value in zip(given, region.terminator.operands, strict=True):
                self.reads(node, value, numbered([self.reached(value, layout) for layout in layouts]))
        self.scope, self.alike = outer
        for (node, layouts), value in zip(given, op.results, strict=True):
            self.makes(node, value, numbered(layouts))

    def carried(self, op: Op, number: int, layout: Layout) -> tuple[int, Sequence[Layout]]:
        """A node of all layouts in which a value may be carried round, or given by branches, and these."""
        layouts = self.any_layout(op.results[number], layout)
        return self.node(op, np.zeros(len(layouts)), number), layouts

    def any_layout(self, value: int, layout: Layout) -> tuple[Layout, ...]:
        """The layouts in which a value may be handed on, one of which was decided."""
        type = self.graph.types[value]
        if layout is None or not type.is_tensor or 0 in type.dims:
            return (layout,)
        most = most_of(self.most_held, value)
        every = layouts_of(type, layout, self.together)
        return tuple([one for one in every if one == layout or is_held(type, one, most)])

    def barrier(self, op: Op, decision: Computed) -> None:
        """Add the values that wait for each other: each is handed on by itself, in any layout."""
        for number, layout in enumerate(decision.results):
            value, result = op.operands[number], op.results[number]
            lying = self.link_of[value] != NO_LINK, self.read_from[value], layout, most_of(self.most_held, result)
            key = number, self.graph.types[result], self.scope, min(2, self.targets.uses[result]), lying
            if key not in self.waiting:
                self.waiting[key] = self.waits(value, result, number, layout)
            self.made.carried[self.add(op, self.waiting[key])] = number

    def waits(self, value: int, result: int, number: int, layout: Layout) -> Alike:
        """What is to be added for a value that is handed on, and for others that are as it is."""
        made = numbered(self.any_layout(result, layout) if self.targets.uses[result] else (layout,))
        read = numbered([self.reached(value, one) for one in made.layouts])
        reads = (number,) if self.link_of[value] != NO_LINK and read.layouts else ()
        makes = ((number, self.number(made.layouts, result)),) if self.is_linked(result, made) else ()
        places = [Place(self.scope, *one) for one, is_there in ((read, reads), (made, makes)) if is_there]
        return Alike(self.kind((), np.zeros(max(1, made.of_way.size)), places), reads, makes)

    def ops(self, ops: Sequence[Op]) -> None:
        """Add ops in order; those of which all is as it was of one before them as that one."""
        known, lying = self.alike, self.lying
        asked, matters = self.targets.alike.__getitem__, self.read_from.__getitem__
        for op in ops:
            operands, results = op.operands, op.results
            key = id(op.signature), lying[op], *map(asked, results), *map(matters, operands)
            alike = known.get(key)
            if alike is None:
                alike = self.op(op)
                if alike is None:  # it is added
                    continue
                known[key] = alike
            self.add(op, alike)

    def op(self, op: Op) -> Alike | None:
        """What is to be added for an op that can be split; all others are added with their regions. Bodies of manual
        computations are seen from outside only.
        """
        match decision := self.decisions[op]:
            case Computed() if op.name == "stablehlo.while":
                self.loop(op, decision)
            case Computed() if op.name in _BRANCHES:
                self.branches(op, decision)
            case Computed() if op.name == "stablehlo.optimization_barrier":
                self.barrier(op, decision)
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
        if op.regions or not op.results or facts_of(op.name).refused:
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

    def split(self, op: Op, all: AllWays, seconds: Seconds) -> Alike:
        """What is to be added for an op with all ways in which it can be split."""
        link_of = self.link_of
        reads = tuple(
            [i for i, value in enumerate(op.operands) if link_of[value] != NO_LINK and all.operands[i].layouts]
        )
        makes = tuple(
            [
                (i, self.number(made.layouts, value))
                for i, (value, made) in enumerate(zip(op.results, all.results, strict=True))
                if self.is_linked(value, made)
            ]
        )
        key = id(all), id(seconds), self.scope, reads, tuple([place for place, _ in makes])
        kind = self.kinds.get(key)
        if kind is None:
            ends = [*[all.operands[place] for place in reads], *[all.results[place] for place, _ in makes]]
            kind = self.kinds[key] = self.kind(all.ways, seconds, [Place(self.scope, *one) for one in ends])
        return Alike(kind, reads, makes)

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
        sources = tuple([(layout,) if layout and self.link_of[value] != NO_LINK else () for value, layout in read])
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
