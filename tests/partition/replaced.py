"""Decisions of which some are others: ops split in ways drawn at random from all that the mesh allows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from shardwright.ir.graph import Block, Graph, Op
from shardwright.partition.assign import choices
from shardwright.partition.decisions import AtUses, Computed, Decisions, Fresh, Layout, PassedOn, Version
from shardwright.partition.factors import FactorAxes
from shardwright.partition.proposals import Shardings, Source, from_mesh
from shardwright.partition.splits import Splits
from shardwright.partition.values import Value, Values
from shardwright.sharding import TensorSharding
from shardwright.steps import layouts_after

__all__ = ["with_others"]


def with_others(graph: Graph, decisions: Decisions, rng: random.Random, share: float) -> tuple[Decisions, int]:
    """These decisions, each op's replaced by another way to split it with the probability `share`; how many were.

    An op that is split in another way first has its operands brought where that needs them. Its results are brought
    where they were decided to be, since the decisions about its readers stay as they are.
    """
    replacer = _Replacer(graph, decisions, rng, share)
    replacer.block(graph.main.block, decisions.arguments)
    return replace(decisions, ops=tuple(map(replacer.decisions.get, graph.walk()))), replacer.count


class _Replacer:
    """Goes through a program as who writes it does, with the versions of values that there are."""

    def __init__(self, graph: Graph, decisions: Decisions, rng: random.Random, share: float) -> None:
        self.graph = graph
        self.rng = rng
        self.share = share
        self.decisions = dict(zip(graph.walk(), decisions.ops, strict=True))
        self.values = Values(graph.mesh)
        self.env: dict[int, Value] = {}
        self.due: tuple[Version, ...] = ()
        self.count = 0

    def block(self, block: Block, layouts: Sequence[Layout]) -> None:
        self.define(block.arguments, layouts)
        with self.values.region():
            self.ops(block.ops)

    def define(self, values: Sequence[int], layouts: Sequence[Layout]) -> None:
        for value, layout in zip(values, layouts, strict=True):
            self.env[value] = Value(value, self.graph.types[value], layout, 1, self.values.states)
            self.values.define(value, layout, 1)

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            match self.decisions[op]:
                case Computed() as decision:
                    self.know(decision.before)
                    self.computed(op, replace(decision, before=self.with_due(decision.before)))
                case PassedOn() as decision:
                    self.know(decision.before)
                    self.passed_on(op, replace(decision, before=self.with_due(decision.before)))
                case AtUses():
                    self.at_uses(op)

    def with_due(self, before: tuple[Version, ...]) -> tuple[Version, ...]:
        """The versions that an op replaced before this one owes its readers, and then those of this one."""
        due, self.due = self.due, ()
        return (*due, *before)

    def know(self, versions: tuple[Version, ...]) -> None:
        for version in versions:
            known = self.env[version.value].number
            made = [version.layout] if isinstance(version, Fresh) else layouts_after(version.source, version.steps)
            if isinstance(version, Fresh):
                self.know(version.before)
            for layout in made:
                self.values.add(known, layout)

    def at_uses(self, op: Op) -> None:
        (result,) = op.results
        operands = tuple([self.env[value] for value in op.operands])
        layout = TensorSharding.of(self.graph.mesh, [()] * self.graph.types[result].rank)
        self.env[result] = Value(result, self.graph.types[result], layout, 1, self.values.states, operands)
        self.values.define(result, None, 1, is_fresh=True)

    def passed_on(self, op: Op, decision: PassedOn) -> None:
        self.decisions[op] = decision
        yielded = op.operands
        for body in op.regions:
            self.env.update(zip(body.arguments, map(self.env.__getitem__, op.operands), strict=True))
            self.ops(body.ops[:-1])
            yielded = body.terminator.operands
        self.env.update(zip(op.results, map(self.env.__getitem__, yielded), strict=True))

    def computed(self, op: Op, decision: Computed) -> None:
        self.decisions[op] = decision
        if not op.regions and self.can_differ(op, decision) and self.rng.random() < self.share:
            self.replace(op, decision)
            return
        if op.name != "sdy.manual_computation":
            for region in op.regions:
                self.block(region, decision.results if region.arguments else ())
        self.define(op.results, kept_layouts(op, decision))

    def can_differ(self, op: Op, decision: Computed) -> bool:
        """Whether it is an op on tensors, decided on like any other."""
        layouts = (*decision.operands, *decision.results)
        return bool(op.results) and None not in layouts and op.name != "stablehlo.optimization_barrier"

    def some_of_mesh(self, splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> list[FactorAxes]:
        """Some ways that the mesh allows: to price them all takes long."""
        ways = list(from_mesh(splits, sources, targets))
        return self.rng.sample(ways, min(len(ways), 8))

    def replace(self, op: Op, decision: Computed) -> None:
        """Draw another way for an op; where it has none it stays."""
        operands = [self.env[value] for value in op.operands]
        targets = tuple([layout for layout in kept_layouts(op, decision) if layout])
        sources = tuple([operand.source for operand in operands])
        passing = frozenset(number for number, source in enumerate(sources) if source and source[0].partial)
        ways = choices(op.signature, sources, targets, passing, self.some_of_mesh)
        others = [way for way in ways if (way.operands, way.results) != (decision.operands, decision.results)]
        if not others:
            self.define(op.results, targets)
            return
        way = self.rng.choice(others)
        before, read = self.values.read(operands, way.operands)
        self.decisions[op] = Computed((*decision.before, *before), read, way.results)
        self.count += 1
        self.define(op.results, way.results)
        self.due, _ = self.values.read([self.env[value] for value in op.results], targets)


def kept_layouts(op: Op, decision: Computed) -> tuple[Layout, ...]:
    """How the results of an op lie when it is done: as it computes them, or as the last steps behind it leave them."""
    made = {version.value: layouts_after(version.source, version.steps)[-1] for version in decision.after}
    return tuple([made.get(value, layout) for value, layout in zip(op.results, decision.results, strict=True)])
