"""One program, partitioned again and again with other shardings of its values.

Every op is decided on by the states of what it reads and the layouts that are asked (`sites`); where these are as they
were in a program before, it is what it was then, and so is all that is written of it (`pieces`). The pieces of a
program in their order are the program that `materialize` and `localize` write, but for the numbers of its values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, compress, count
from operator import is_not
from typing import NamedTuple

from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import DATA_FLOW_OPS, DEVICE_OPS, STEPS
from shardwright.ir.types import TensorType
from shardwright.partition.again.pieces import Piece, Pieces
from shardwright.partition.again.runs import Asked, BlockRuns, Known, Run
from shardwright.partition.again.sites import Site, Sites, is_at_uses
from shardwright.partition.alike import on_values
from shardwright.partition.decide import Decider
from shardwright.partition.decisions import Decision, Layout
from shardwright.partition.late_rows import is_late_row
from shardwright.partition.localize.pieces import CannotGoOn, LocalPieces
from shardwright.partition.op_split import Given
from shardwright.partition.padding.sizes import is_uneven
from shardwright.partition.targets import Targets, layout_of
from shardwright.partition.values import State, Values
from shardwright.propagation.rfc.option import OPTION
from shardwright.sharding import TensorSharding

__all__ = ["Again", "Partitioned", "partitions_again"]

_ELSEWHERE = DATA_FLOW_OPS | DEVICE_OPS | STEPS.keys() | {"arith.constant", "sdy.sharding_group"}
"""Ops of which more is to be known than how what they read lies."""

_UNTOLD = Given(is_told=False)
"""Every op is split by its situation; users are told nothing of what is only tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """A program that was partitioned, in pieces.

    Attributes:
        arguments: The numbers of its arguments.
        run: What its ops became, in order.
    """

    arguments: tuple[int, ...]
    run: Run

    @property
    def pieces(self) -> list[Piece]:
        """What its ops became, in order."""
        return self.run.pieces


def partitions_again(graph: Graph) -> Again | None:
    """What partitions a propagated program with other shardings; `None` of one for which that is not known.

    Its ops have no regions, no program of one device is in it, and no two of its ops are taken for one.
    """
    ops = graph.main.block.ops
    if any(op.regions or op.signature.name in _ELSEWHERE or op.signature.text(OPTION) is not None for op in ops):
        return None
    makers = {value: op.signature.name for op in ops for value in op.results}
    for op in ops:
        read = {makers.get(value) for value in op.operands}
        if op.signature.name == "stablehlo.slice" and "stablehlo.pad" in read:
            return None
        if op.signature.name == "stablehlo.concatenate" and "stablehlo.slice" in read:
            return None
    try:
        return Again(graph)
    except CannotGoOn:
        return None


class Again:
    """Partitions a program and others that differ from it in how values lie, and in which constants are one.

    Attributes:
        graph: The program.
        pieces: What is known of its ops.
    """

    def __init__(self, graph: Graph) -> None:
        """Nothing is known yet of a propagated program."""
        self.graph = graph
        self.types = graph.types
        self.pieces = Pieces(graph)
        self._targets = Targets(graph)
        self._values = Values(self._targets.mesh)
        self._sites = Sites()
        self._blocks: dict[Block, BlockRuns] = {}
        self._alike: dict[Hashable, _Alike] = {}
        self._readers: dict[Run, tuple[Counter[int], frozenset[int]]] = {}  # how often values are read; those sent
        self._layouts: dict[tuple[int, int], Layout] = {}
        self._states: dict[tuple[int, int, int], State] = {}
        self._held: list[object] = []  # what is known by its identity
        layouts = list(map(self._layout, graph.shardings, self.types))
        self._first = graph.shardings, layouts, list(map(id, layouts))

    @property
    def locals(self) -> LocalPieces:
        """What writes for one device."""
        return self.pieces.locals

    def partitioned(self, graph: Graph) -> Partitioned:
        """A propagated program whose ops are those of the first one, but for constants that are one.

        Raises:
            ShardingError: what `materialize` and `localize` do, of which they tell more.
            CannotGoOn: it has to be partitioned as a whole.
        """
        block = graph.main.block
        runs = self._blocks.get(block) or self._of_block(block)
        layouts, numbers, others = self._all_layouts(graph)
        targets = self._targets.changed(graph, layouts, runs.uses)
        deciding = _Deciding(graph, targets, self._values, runs.fresh, self.pieces, self._alike)
        states = map(self._state, block.arguments, targets.arguments, map(runs.uses.__getitem__, block.arguments))
        asked = Asked(numbers, others, targets.results, dict(zip(block.arguments, states, strict=True)))
        run = runs.run(asked, deciding.decide)
        self._check_read(run)
        return Partitioned(tuple(map(self.pieces.number, block.arguments, targets.arguments)), run)

    def _check_read(self, run: Run) -> None:
        """Of collectives whose results nobody reads the program has to be partitioned as a whole, which leaves them
        out.
        """
        first = run.first or run
        if first not in self._readers:
            self._readers[first] = Counter(_all_read(first.pieces)), frozenset(_all_sent(first.pieces))
        counts, sent = self._readers[first]
        if run is first:
            if not counts.keys() >= sent:
                raise CannotGoOn
            return
        new, old = ([one.pieces[place] for place in run.places] for one in (run, first))
        more, less, made = Counter(_all_read(new)), Counter(_all_read(old)), set(_all_sent(new))
        there = made | (sent.intersection(less) - set(_all_sent(old)))
        if any(counts[value] + more[value] <= less[value] for value in there):
            raise CannotGoOn

    def _of_block(self, block: Block) -> BlockRuns:
        """What is known of a block apart from how its values lie."""
        uses = [0] * len(self.types)
        for op in block.ops:
            for value in op.operands:
                uses[value] += 1
        fresh = {op.results[0]: self._values.fresh for op in block.ops if is_at_uses(op)}
        known = self._blocks[block] = BlockRuns(self._sites.of(block, uses), uses, fresh)
        return known

    def _state(self, value: int, layout: Layout, uses: int) -> State:
        """The state of an argument."""
        key = value, id(layout), uses
        if key not in self._states:
            self._values.define(value, layout, uses, is_fresh=layout is not None and 0 in self.types[value].dims)
            self._states[key] = self._values.states[value]
        return self._states[key]

    def _all_layouts(self, graph: Graph) -> tuple[list[Layout], list[int], set[int]]:
        """The layout of each value that its sharding asks for, what tells it, and which are not those of the first."""
        layouts, numbers = list(self._first[1]), list(self._first[2])
        others = set(compress(count(), map(is_not, graph.shardings, self._first[0])))
        for value in others:
            layouts[value] = self._layout(graph.shardings[value], self.types[value])
            numbers[value] = id(layouts[value])
        return layouts, numbers, others

    def _layout(self, sharding: TensorSharding | None, type: TensorType) -> Layout:
        """The layout that a sharding asks for, one object for those of one sharding and type."""
        key = id(sharding), id(type)
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(sharding, type)
        return self._layouts[key]

    def _new_layout(self, sharding: TensorSharding | None, type: TensorType) -> Layout:
        if is_uneven(sharding, type) or (sharding is not None and sharding.partial):
            raise CannotGoOn
        layout = layout_of(sharding, type, self._targets.mesh)
        self._held += (sharding, layout)
        return layout


def _all_read(pieces: list[Piece]) -> Iterable[int]:
    return chain.from_iterable([piece.reads for piece in pieces])


def _all_sent(pieces: list[Piece]) -> Iterable[int]:
    return chain.from_iterable([piece.sent for piece in pieces])


class _Alike(NamedTuple):
    """What was decided on an op, for all that read and make values of which the same is known and asked.

    Attributes:
        values: The values that it reads and makes.
        decision: What was decided.
        states: The states of values behind it, of those that it changed or made, by their places among the values.
    """

    values: tuple[int, ...]
    decision: Decision
    states: tuple[tuple[int, State], ...]


class _Deciding:
    """Decides on ops of one program of which all is not as it was in one before."""

    def __init__(
        self,
        graph: Graph,
        targets: Targets,
        values: Values,
        fresh: Mapping[int, State],
        pieces: Pieces,
        alike: dict[Hashable, _Alike],
    ) -> None:
        self.graph = graph
        self.targets = targets
        self.pieces = pieces
        self.alike = alike
        values.begin(fresh)
        self.decider = Decider(graph, targets, _UNTOLD)
        self.decider.values = values

    def decide(self, site: Site, before: tuple[State, ...]) -> Known:
        """What is decided on an op that reads values in these states, and what it becomes."""
        decision, states = self._decided(site, before)
        if is_late_row(site.op, decision):
            raise CannotGoOn
        reads = {value: state.versions for value, state in zip(site.reads, before, strict=True)}
        return Known(self.pieces.piece(site.op, decision, reads, site.makers), states)

    def _decided(self, site: Site, before: tuple[State, ...]) -> tuple[Decision, dict[int, State]]:
        """What is decided on an op, as on one before it of which all is alike, and the states that it leaves."""
        if site.op is self.graph.main.block.terminator:
            return self._newly_decided(site, before)
        values = site.values
        key = site.form, before, *map(id, self.targets.of(values))
        alike = self.alike.get(key)
        if alike is not None:
            decision = on_values(alike.decision, dict(zip(alike.values, values, strict=True)))
            return decision, {values[place]: state for place, state in alike.states}
        decision, states = self._newly_decided(site, before)
        self.alike[key] = _Alike(values, decision, tuple([(values.index(one), state) for one, state in states.items()]))
        return decision, states

    def _newly_decided(self, site: Site, before: tuple[State, ...]) -> tuple[Decision, dict[int, State]]:
        states, op = self.decider.values.states, site.op
        states.update(zip(site.reads, before, strict=True))
        for value in site.makers:
            self._know(value, site.makers)
        decision = self._decision(op)
        pairs = zip(site.reads, before, strict=True)
        changed = {value: states[value] for value, state in pairs if states[value] is not state}
        return decision, changed | {value: states[value] for value in op.results if value in states}

    def _decision(self, op: Op) -> Decision:
        decider = self.decider
        if op is self.graph.main.block.terminator:
            return decider.taking(op, self.targets.results)
        is_plain = all(value in decider.values.states for value in op.operands)
        decision = (decider.in_place(op) if is_plain else None) or decider.decided(op)
        if decision is None:
            raise CannotGoOn
        return decision

    def _know(self, value: int, makers: Mapping[int, Op]) -> None:
        """Know what a value is that is another one, or that is made where it is read."""
        maker = makers.get(value)
        if maker is not None and value not in self.decider.env:
            for operand in maker.operands:
                self._know(operand, makers)
            self.decider.know(maker)
