"""Stacks that a loop takes a row of in each turn, split along these rows: gathered once, in front of the loop.

    while i < 10 { %x = dynamic_slice %stack, %i … }        each of four devices has a few of ten rows

One device has the row of a turn, and where all need it a collective is started for it in every turn, which sends each
row twice where it is an all_reduce. A loop that carries the stack whole starts one. That takes the memory of all rows
as long as the loop runs, and of the weights of all layers nobody wants that. So all stacks together that are gathered
may add as much as a device holds of the largest tensor, or of a quarter of all arguments: what a search may hold of one
(`most_to_hold`). So that it is known what the turns send, the program is decided as it is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph, Op
from shardwright.ir.ops import MANUAL
from shardwright.partition.decide import decider
from shardwright.partition.decisions import Computed, Decision, Decisions
from shardwright.partition.localize.checks import is_split
from shardwright.partition.op_split import Given
from shardwright.sharding import TensorSharding

if TYPE_CHECKING:
    from shardwright.partition.search.as_decided import Decided

__all__ = ["with_whole_stacks"]

_Stacks = Mapping[int, TensorSharding]
"""Which of the values that a loop carries are stacks, and how they lie with all rows on each device."""

_ROUNDED = 1e-9
"""A difference, of seconds of all, that is rounding."""


def with_whole_stacks(graph: Graph, decisions: Decisions, given: Given) -> tuple[Graph, Decisions]:
    """A program whose loops carry stacks whole where it takes less time so, and what is decided of it.

    Arguments:
        graph: A propagated program. It stays as it is, and is what is given back where no loop takes less.
        decisions: What was decided of it.
        given: What is given of its ops.
    """
    outside = graph.main.block.walk(opaque=(MANUAL,))  # bodies of manual computations are programs of their own
    loops = [op for op in outside if op.regions and op.signature.name == "stablehlo.while"]
    if not loops:
        return graph, decisions
    decided = dict(zip(graph.walk(), decisions.ops, strict=True))
    found = [(loop, stacks) for loop in loops if (stacks := _stacks(loop, decided[loop]))]
    if not found:
        return graph, decisions
    from shardwright.partition.search.as_decided import (
        Decided,
        Ops,
    )  # few programs take a look at what all of them takes
    from shardwright.partition.search.total import Total, times_run, total_seconds

    times, hardware = times_run(graph), current_hardware()
    alone = Decided(Ops(graph, times), decisions)
    room, seconds = _Room(alone), Total(alone, hardware).seconds
    for loop, stacks in found:
        for some in _trials(room.fitting(loop, stacks)):
            other = _carrying(graph, loop, some)
            changed = decider(other)(given)
            took = total_seconds(other, changed, times, hardware)
            if took < seconds * (1 - _ROUNDED):
                room.take(loop, some)
                graph, decisions, seconds = other, changed, took
                break
    return graph, decisions


class _Room:
    """What devices may still hold more of stacks, in bytes; what several loops read is held once."""

    def __init__(self, decided: Decided) -> None:
        from shardwright.partition.search.held import most_to_hold

        self.graph = decided.graph
        self.left = most_to_hold(decided)
        self.held: set[tuple[int, TensorSharding]] = set()

    def fitting(self, loop: Op, stacks: _Stacks) -> _Stacks:
        """Those for which there is room together, the smallest first."""
        left, fitting = self.left, dict[int, TensorSharding]()
        for index, whole in sorted(stacks.items(), key=lambda stack: self.added(loop, *stack)):
            left -= self.added(loop, index, whole)
            if left >= 0:
                fitting[index] = whole
        return fitting

    def take(self, loop: Op, stacks: _Stacks) -> None:
        """Have them held."""
        self.left -= sum(self.added(loop, index, whole) for index, whole in stacks.items())
        self.held.update((loop.operands[index], whole) for index, whole in stacks.items())

    def added(self, loop: Op, index: int, whole: TensorSharding) -> int:
        """What a device holds of one with all rows."""
        from shardwright.partition.search.held import bytes_held

        value = loop.operands[index]
        return 0 if (value, whole) in self.held else bytes_held(self.graph.types[value], whole)


def _stacks(loop: Op, decision: Decision | None) -> _Stacks:
    """The values that a loop hands on as they are, of which its body reads rows of a dimension that is split."""
    _, body = loop.regions
    assert isinstance(decision, Computed)
    unchanged = {
        argument: index
        for index, (argument, yielded) in enumerate(zip(body.arguments, body.terminator.operands, strict=True))
        if argument == yielded
    }
    stacks: dict[int, TensorSharding] = {}
    for op in body.ops if unchanged else ():
        index = unchanged.get(op.operands[0], -1) if op.signature.name == "stablehlo.dynamic_slice" else -1
        layout = decision.results[index] if index >= 0 else None
        if layout is None or layout.partial:
            continue
        whole = stacks.get(index, layout)
        sizes = zip(op.signature.operands[0].dims, op.signature.results[0].dims, strict=True)
        taken = [rows != size for size, rows in sizes]
        if any(cut and is_split(axes) for cut, axes in zip(taken, whole.axes, strict=True)):
            stacks[index] = whole.with_axes([() if cut else axes for cut, axes in zip(taken, whole.axes, strict=True)])
    return stacks


def _trials(stacks: _Stacks) -> Iterator[_Stacks]:
    """All stacks of a loop together, then each by itself."""
    if stacks:
        yield stacks
    if len(stacks) > 1:
        yield from ({index: whole} for index, whole in stacks.items())


def _carrying(graph: Graph, loop: Op, stacks: _Stacks) -> Graph:
    """The program with a loop that carries stacks as they are told."""
    shardings = list[TensorSharding | None](graph.shardings)
    carried: Sequence[Sequence[int]] = (loop.results, *(region.arguments for region in loop.regions))
    for index, whole in stacks.items():
        for values in carried:
            shardings[values[index]] = whole
    return replace(graph, shardings=shardings)
