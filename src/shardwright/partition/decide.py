"""Propagated program → decisions: how each op is split, and which versions of values are made where.

Ops are taken in order. Each is split as `assign` says; its operands are brought into the layouts that it needs; its
results stay in the layout they are computed in (partial, perhaps) until somebody needs another. So a partial sum
is reduced as late as possible, once, and as a reduce_scatter where a shard of it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import LAYOUTS
from shardwright.partition.alike import Alike, alike, is_of_any, needs_more
from shardwright.partition.bodies import body_layouts, even_boundary, unknown_regions
from shardwright.partition.carried_sums import carried_layouts
from shardwright.partition.decisions import AtUses, Computed, Decision, Decisions, Layout, PassedOn, Reshard, Version
from shardwright.partition.free_axes import is_split_inside, stays_within
from shardwright.partition.in_place import pointwise_in_place
from shardwright.partition.last_reductions import layout_after, to_last_reduction
from shardwright.partition.localize.uneven import is_at_boundary
from shardwright.partition.op_notes import ahead_notes, gather_notes, gathers, op_notes
from shardwright.partition.op_split import (
    NOTHING_GIVEN,
    Given,
    Situation,
    Split,
    filled,
    is_reduced_behind,
    of_tensors,
    split_alike,
    split_by,
)
from shardwright.partition.splits import refusal
from shardwright.partition.targets import Targets
from shardwright.partition.values import Value, Values, intended
from shardwright.rules.pointwise import POINTWISE
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Decide", "Decider", "decide", "decider"]


class Decide(Protocol):
    """What is decided of a graph."""

    def __call__(self, given: Given = NOTHING_GIVEN) -> Decisions:
        """Single ops are split as is given, all others as is cheapest for each by itself."""


def decide(graph: Graph) -> Decisions:
    """Decide how every op of a propagated graph is computed, and how every value that it reads comes where it needs it.

    Raises:
        ShardingError: no mesh, an op that has no meaning on one device or regions of no known meaning, or contributions
            of a kind that cannot be made.
    """
    return decider(graph)()


def decider(graph: Graph, targets: Targets | None = None) -> Decide:
    """What decides a graph, as often as asked, by its targets, where these are known; raises what `decide` does."""
    targets = Targets(graph) if targets is None else targets

    def decide(given: Given = NOTHING_GIVEN) -> Decisions:
        return Decider(graph, targets, given).run()

    return decide


class Decider:
    """Decides on the ops of one graph; `values` tells in which layouts values are there so far."""

    def __init__(
        self, graph: Graph, targets: Targets, given: Given, decisions: dict[Op, Decision] | None = None
    ) -> None:
        """Nothing is decided yet, but for `decisions`."""
        self.graph = graph
        self.given = given
        self.targets = targets
        self.mesh = targets.mesh
        self.values = Values(self.mesh, given.made_of if given.ways else None)
        self.uses = targets.uses
        self.env: dict[int, Value] = {}
        self.known: dict[Hashable, Alike] = {}
        self.decisions = {} if decisions is None else decisions
        self.carried = dict(given.carried)  # by loops, branches and barriers

    def run(self) -> Decisions:
        """What is decided on the whole graph."""
        arguments, results = self.targets.arguments, self.targets.results
        self._block(self.graph.main.block, arguments, results)
        return Decisions(arguments, results, tuple(map(self.decisions.get, self.graph.walk())))

    # --- values

    def define(self, values: tuple[int, ...], layouts: Sequence[Layout]) -> None:
        """Say in which layouts values are there first."""
        types, uses = self.graph.types, self.uses
        for value, layout in zip(values, layouts, strict=True):
            self.values.define(value, layout, uses[value], is_fresh=layout is not None and 0 in types[value].dims)

    def _value(self, number: int, made_of: tuple[Value, ...] = ()) -> Value:
        """A value as ops read it that is no other one; any device can make it of those given, if it is so."""
        type, states = self.graph.types[number], self.values.states
        made = made_of if states[number].is_fresh else None
        return Value(number, type, self.targets.layout(number), self.uses[number], states, made)

    def _operands(self, op: Op) -> list[Value]:
        env = self.env
        for value in op.operands:
            if value not in env:
                env[value] = self._value(value)
        return [env[value] for value in op.operands]

    # --- blocks

    def _block(self, block: Block, layouts: tuple[Layout, ...], yields: tuple[Layout, ...]) -> None:
        """A block with these layouts of its arguments and of what it yields."""
        self.define(block.arguments, layouts)
        self._ops(block.ops[:-1])
        self.decisions[block.terminator] = self.taking(block.terminator, yields)

    def _region(self, block: Block, layouts: tuple[Layout, ...], yields: tuple[Layout, ...]) -> None:
        with self.values.region():
            self._block(block, layouts, yields)

    def _ops(self, ops: list[Op]) -> None:
        """Decide on ops in order; on those of which all is as it was of one before them, as on that."""
        values, decisions, known, ways = self.values, self.decisions, self.known, self.given.ways
        states, number_of = values.states, self.targets.alike.__getitem__
        state_of = states.__getitem__
        for op in ops:
            way, read, results = ways.get(op), op.operands, op.results
            try:
                key = id(op.signature), id(way), *map(state_of, read), *map(number_of, results)
                one = known.get(key)
                more = (key, *map(number_of, read)) if one is None else None
            except KeyError:  # values that are other ones
                read, asked = self._others(op)
                key, one = (), None
                more = id(op.signature), id(way), *map(state_of, read), asked, *map(number_of, results)
            if one is None:
                one = known.get(more)
            if one is not None:
                decisions[op] = one.on((*read, *results), values) if one.values else one.decision
                if len(results) == 1:  # nearly always
                    states[results[0]] = one.states[0]
                else:
                    states.update(zip(results, one.states, strict=True))
                continue
            before = list(map(state_of, read))
            decision = (self.in_place(op) if key and way is None else None) or self.decided(op)
            if decision is not None:
                decisions[op] = decision
            if isinstance(decision, Computed) and is_of_any(op, read, decision, self.targets, values):
                known[key if key and not needs_more(decision) else more] = alike(op, read, decision, before, values)

    def _others(self, op: Op) -> tuple[tuple[int, ...], Hashable]:
        """The values that an op reads, of which some are others, and what is asked of each."""
        operands = self._operands(op)
        asked = tuple([(id(value.target), min(value.uses, 2), value.fresh_from is None) for value in operands])
        return tuple([value.number for value in operands]), asked

    def decided(self, op: Op) -> Decision | None:
        """What becomes of an op; nothing is to be decided of sharding groups."""
        name = op.signature.name
        handler = self._HANDLERS.get(name)
        if handler is not None:
            return handler(self, op)
        facts = facts_of(name)
        if facts.constant:
            return self._at_uses(op)
        if op.regions:
            raise unknown_regions(self.graph, op)
        if facts.refused:
            return self._of_devices(op)
        return self._split(op) if name != "sdy.sharding_group" else None

    # --- ops

    def taking(self, op: Op, layouts: tuple[Layout, ...], results: tuple[Layout, ...] = ()) -> Computed:
        """An op that takes its operands in these layouts, whatever they cost."""
        operands = self._operands(op)
        before, read = self.values.read(operands, layouts)
        told = gather_notes(op, operands, read, before) if self.given.is_told else ()
        return Computed(before, read, results, notes=tuple(told))

    def _split(self, op: Op) -> Computed:
        """Any op without regions: split it, bring its operands where they must be."""
        operands, layouts = self._operands(op), self.targets.of(op.results)
        sources = tuple([operand.source for operand in operands])
        if not layouts and not any(sources):  # tokens, and what any device can make
            return Computed(*self.values.read(operands, [replicated(self.mesh, value.type.rank) for value in operands]))
        asked = self.targets.contributed(op.results, layouts)
        passing = frozenset(
            [i for i, source in enumerate(sources) if source and source[0].partial and operands[i].uses == 1]
        )
        way = self.given.ways.get(op)
        lying = pointwise_in_place(op.signature, sources, asked, passing) if way is None else None
        if lying is not None:
            self.define(op.results, layouts)
            return Computed(*self.values.read(operands, lying), layouts)
        unread = frozenset([i for i, value in enumerate(op.results) if not self.uses[value]])
        hardware, shall_lie = self.values.hardware, intended(operands, sources)
        situation = Situation(op.signature, sources, asked, passing, self.mesh, hardware, unread, shall_lie)
        split = split_alike(situation) if way is None else split_by(way, situation)
        computed = split.computed
        if not split.is_there:
            before, read = self.values.read(operands, computed.operands)
            computed = Computed(before, read, computed.results) if before else computed
        if split.is_all and not any(map(gathers, computed.before)):
            self.define(op.results, computed.results)
            return computed
        return self._told_and_reduced(op, split, computed, operands, filled(layouts, self.mesh))

    def in_place(self, op: Op) -> Computed | None:
        """The decision on a pointwise op in place that reads what is there, and no sums: most ops are so."""
        if op.signature.name not in POINTWISE:
            return None
        states = self.values.states
        sources = tuple([states[value].source for value in op.operands])
        if not all(sources) or any(source[0].partial for source in sources):
            return None
        layouts = self.targets.of(op.results)
        asked = self.targets.contributed(op.results, layouts)
        lying = pointwise_in_place(op.signature, sources, asked, frozenset())
        if lying is None:
            return None
        self.define(op.results, layouts)
        return Computed((), lying, layouts)

    def _told_and_reduced(
        self, op: Op, split: Split, computed: Computed, operands: list[Value], targets: tuple[TensorSharding, ...]
    ) -> Computed:
        """The decision with what is told of an op, and with its results reduced if they are partial by another kind
        than sum.
        """
        types, choice = op.signature.results, split.choice
        if self.given.is_told:
            told = op_notes(op, choice, operands, targets, computed.before, split.work, op in self.given.ways)
            computed = Computed(computed.before, computed.operands, computed.results, notes=tuple(told))
        if not is_reduced_behind(choice):
            self.define(op.results, computed.results)
            return computed
        behind = [self.given.behind.get(value, target) for value, target in zip(op.results, targets, strict=True)]
        steps = [
            () if self._stays_partial(value, layout) else to_last_reduction(type, layout, target, self.values.hardware)
            for value, type, layout, target in zip(op.results, types, choice.results, behind, strict=True)
        ]
        self.define(op.results, list(map(layout_after, choice.results, steps)))
        made = zip(op.results, choice.results, steps, strict=True)
        return replace(computed, after=tuple([Reshard(value, layout, taken) for value, layout, taken in made if taken]))

    def _boundary(self, op: Op) -> Computed:
        """A pad of an uneven argument, or the slice that makes an uneven result, leaves every shard as it is."""
        into, out = self.targets.of(op.operands), self.targets.of(op.results)
        if not is_at_boundary(op.signature, into, out):
            return self._split(op)
        computed = self.taking(op, into, out)
        self.define(op.results, out)
        return computed

    def _stays_partial(self, value: int, layout: TensorSharding) -> bool:
        """Whether a result that is computed so is read by nobody, or given so and not read otherwise."""
        uses = self.uses[value]
        return not uses or (uses == 1 and layout == self.targets.contributions.get(value))

    def _at_uses(self, op: Op) -> AtUses:
        """A constant or iota: any device can make any shard of it."""
        (result,) = op.results
        self.values.make_at_uses(result, op.operands)
        self.know(op)
        return AtUses()

    def _broadcast(self, op: Op) -> Decision:
        """A broadcast scalar is made where it is needed, in the layout needed."""
        return self._split(op) if op.signature.operands[0].rank else self._at_uses(op)

    def _layout(self, op: Op) -> PassedOn:
        """A request for a layout: reshard now; other layouts of the value stay known."""
        (value,), (target,) = self._operands(op), self.targets.of(op.results)
        if value.fresh_from is None:
            self.values.bring(value, target)
        self.know(op)
        return PassedOn(self.values.new_versions())

    def know(self, op: Op) -> None:
        """Know the value that an op gives which hands on what it reads, or is computed where its result is read."""
        operands, (result,) = tuple(self._operands(op)), op.results
        if op.signature.name not in LAYOUTS:
            self.env[result] = self._value(result, operands)
            return
        (value,), target = operands, self.targets.layout(result)
        uses = self.uses[result] + value.uses - 1
        self.env[result] = Value(value.number, value.type, target, uses, self.values.states, value.fresh_from)

    def _barrier(self, op: Op) -> Computed:
        layouts = self.carried.get(op, self.targets.of(op.results))
        computed = self.taking(op, layouts, layouts)
        self.define(op.results, layouts)
        return computed

    def _while(self, op: Op) -> Computed:
        """The values carried round keep one layout: on entry, in both regions, on yield and on exit."""
        targets = self.targets.of(op.results)
        ahead, layouts = self._ahead(op), self.carried.get(op)
        if layouts is None:
            layouts = self.carried[op] = self._carried(op, targets)
        computed = self._behind(ahead, op, self.taking(op, layouts, layouts))
        condition, body = op.regions
        self._region(condition, layouts, (replicated(self.mesh, 0),))
        self._region(body, layouts, layouts)
        self.define(op.results, layouts)
        return computed

    def _carried(self, op: Op, targets: tuple[Layout, ...]) -> tuple[Layout, ...]:
        """How the values lie that a loop carries round."""

        def decided(carried: tuple[Layout, ...]) -> Mapping[Op, Decision]:
            self._region(op.regions[1], carried, carried)
            return self.decisions

        return carried_layouts(op, self.uses, targets, decided)

    def _case(self, op: Op) -> Computed:
        """All branches yield the layouts of the results."""
        layouts, ahead = self.carried.get(op, self.targets.of(op.results)), self._ahead(op)
        before, read = self.values.read(self._operands(op), (replicated(self.mesh, 0),))
        for region in op.regions:
            self._region(region, (), layouts)
        self.define(op.results, layouts)
        return self._behind(ahead, op, Computed(before, read, layouts))

    def _ahead(self, op: Op) -> tuple[Version, ...]:
        """What is made in front of an op because it is read in its regions."""
        for value, layout in self.given.ahead.get(op, ()):
            self.values.bring(self.env.get(value) or self._value(value), layout)
        return self.values.new_versions()

    def _behind(self, ahead: tuple[Version, ...], op: Op, computed: Computed) -> Computed:
        """An op behind what is made in front of it."""
        notes = ahead_notes(self.graph, op, ahead) if self.given.is_told else ()
        return replace(computed, before=(*ahead, *computed.before), notes=(*notes, *computed.notes))

    def _inline(self, op: Op) -> PassedOn:
        """A named computation is its body."""
        (block,) = op.regions
        self.env.update(zip(block.arguments, self._operands(op), strict=True))
        self._ops(block.ops[:-1])
        self.env.update(zip(op.results, self._operands(block.terminator), strict=True))
        return PassedOn()

    def _manual(self, op: Op) -> Computed:
        """A computation written per device: its operands are brought where it says. Its body stays as it is, or is a
        program of its own along the axes that it leaves free.
        """
        boundary, signature = even_boundary(op.signature, self.mesh.manual), op.signature
        results = of_tensors(signature.results, boundary.out_shardings or ())
        computed = self.taking(op, boundary.in_shardings or (), results)
        self.define(op.results, results)
        if is_split_inside(self.graph, op):
            manual = boundary.manual_axes
            inside = Decider(self.graph, self.targets.inside(manual), self.given, self.decisions)
            taken = body_layouts(signature.operands, boundary.in_shardings, manual)
            inside._block(op.regions[0], taken, body_layouts(signature.results, boundary.out_shardings, manual))
        return computed

    def _of_devices(self, op: Op) -> Computed:
        """An op that knows of devices, in a program for one device."""
        if not self.targets.is_inside:
            raise refusal(op.signature, str(self.graph.locations[op.location]))
        if stays_within(op.signature, self.graph, self.mesh):
            return self._split(op)
        taken, given = (
            of_tensors(types, [replicated(self.mesh, type.rank) for type in types])
            for types in (op.signature.operands, op.signature.results)
        )
        computed = self.taking(op, taken, given)
        self.define(op.results, computed.results)
        return computed

    _HANDLERS: ClassVar[dict[str, Callable[[Decider, Op], Decision]]] = {
        "stablehlo.broadcast_in_dim": _broadcast,
        "stablehlo.pad": _boundary,
        "stablehlo.slice": _boundary,
        "stablehlo.while": _while,
        "stablehlo.case": _case,
        "stablehlo.if": _case,
        "stablehlo.optimization_barrier": _barrier,
        **dict.fromkeys(LAYOUTS, _layout),
        "sdy.manual_computation": _manual,
        "sdy.named_computation": _inline,
    }
