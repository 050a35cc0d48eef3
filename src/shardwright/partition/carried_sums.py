"""Sums that a loop carries round: each device adds up its own contributions, which are reduced once, behind the loop.

Of gradients that are accumulated over parts of a batch, say, each turn would reduce what it adds, to add it to a sum
that nobody reads before the loop ends. The layout that the sum is carried in stays as it is, so it takes as much
memory; where what is added would be scattered, as much as is left of it is carried, and it is reduced in each turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardwright.ir.graph import Op
from shardwright.partition.decisions import Computed, Decision, Layout, Reshard
from shardwright.partition.splits import linear_operands
from shardwright.steps import AllReduce

__all__ = ["CarriedSum", "carried_layouts", "carried_sums"]


@dataclass(frozen=True, slots=True)
class CarriedSum:
    """A value that a loop carries, of which its body only makes a sum with something that it computes.

    Attributes:
        index: Which of the values carried.
        op: The op that adds to it.
        carried: Its operand that is carried.
        added: Its other operand.
    """

    index: int
    op: Op
    carried: int
    added: int

    def layout(self, layout: Layout, decisions: Mapping[Op, Decision]) -> Layout:
        """How the contributions lie: partial as what is added is, where all that was decided for it is to reduce it.

        Arguments:
            layout: How the sum is carried otherwise.
            decisions: What was decided of the body then.
        """
        decision = decisions[self.op]
        for version in decision.before if isinstance(decision, Computed) else ():
            if isinstance(version, Reshard) and version.value == self.op.operands[self.added]:
                reduced = all(isinstance(step, AllReduce) for step in version.steps)
                is_sum = all(p.kind == "sum" for p in version.source.partial)
                if reduced and is_sum and layout is not None and version.source.axes == layout.axes:
                    return version.source
        return None

    def is_kept(self, layout: Layout, decisions: Mapping[Op, Decision]) -> bool:
        """Whether contributions that are carried so are added up as they are, with nothing reduced."""
        decision = decisions[self.op]
        return isinstance(decision, Computed) and set(decision.operands) == {layout} == set(decision.results)


def carried_sums(loop: Op, uses: Sequence[int]) -> list[CarriedSum]:
    """What may be carried as contributions: nothing but the sum reads what is carried, nor what is added to it, and
    nothing but the next turn reads the sum.

    Arguments:
        loop: A `stablehlo.while`.
        uses: How many operands read each value.
    """
    condition, body = loop.regions
    makers = {value: op for op in body.ops for value in op.results}
    sums: list[CarriedSum] = []
    for index, (argument, total) in enumerate(zip(body.arguments, body.terminator.operands, strict=True)):
        op = makers.get(total)
        if op is None or uses[argument] != 1 or uses[total] != 1 or uses[condition.arguments[index]]:
            continue
        if len(op.operands) == 2 and argument in op.operands and (0, 1) in linear_operands(op.signature):
            carried = op.operands.index(argument)
            if uses[op.operands[1 - carried]] == 1 and op.operands[1 - carried] in makers:
                sums.append(CarriedSum(index, op, carried, 1 - carried))
    return sums


def carried_layouts(
    loop: Op,
    uses: Sequence[int],
    targets: tuple[Layout, ...],
    decided: Callable[[tuple[Layout, ...]], Mapping[Op, Decision]],
) -> tuple[Layout, ...]:
    """How the values lie that a loop carries round: as they should, but for sums that stay contributions.

    The body is decided with complete sums first, to see what is reduced for them, and again with contributions until
    those that are left are added up as they are.

    Arguments:
        loop: A `stablehlo.while`.
        uses: How many operands read each value.
        targets: How the values should lie.
        decided: What is decided of its body where they lie so.
    """
    sums = carried_sums(loop, uses)
    if not sums:
        return targets
    decisions = decided(targets)
    partial = {one: one.layout(targets[one.index], decisions) for one in sums}
    partial = {one: layout for one, layout in partial.items() if layout is not None}
    while partial:
        carried = list(targets)
        for one, layout in partial.items():
            carried[one.index] = layout
        decisions = decided(tuple(carried))
        if all(one.is_kept(layout, decisions) for one, layout in partial.items()):
            return tuple(carried)
        partial = {one: layout for one, layout in partial.items() if one.is_kept(layout, decisions)}
    return targets
