"""Who goes first where shardings compete for a value: the one with whom the ops around take less time.

The worklist lets the first to arrive win. Here, when an op is about to shard its tensors, it is asked what else could
be done in its place: the same op following another of its tensors (`preference`), or another op that would shard one
of these values so that both cannot be. What each of these leads to is priced: the seconds of all ops that touch a value
that any of them would shard (`seconds`), as often as each runs. The least wins, and the first of equals. The losers
come to their turn afterwards and take what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shardwright.axes import overlaps_any
from shardwright.cost.hardware import Hardware
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.propagation.engine.compatible import prefix_status
from shardwright.propagation.engine.preference import Preferred
from shardwright.propagation.engine.seconds import op_seconds
from shardwright.propagation.engine.worklist import Change, Changes, Key, StepTable, Worklist
from shardwright.rules.iterations import iterations_of
from shardwright.rules.registry import is_given, local_factors_by
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["OpFigures", "Rivals", "work_of"]

_ROUNDED = 1 - 1e-9
"""Seconds that are less by no more than this are the same but for rounding."""


class OpFigures(NamedTuple):
    """What the price of an op depends on beside shardings: see `op_seconds`."""

    rule: ShardingRule
    whole: frozenset[int]
    iterations: int
    types: tuple[TensorType, ...]
    times: tuple[float, ...]


class Rivals:
    """Chooses among the changes that compete when one is about to be made."""

    def __init__(self, worklist: Worklist, figures: Sequence[OpFigures | None], hardware: Hardware) -> None:
        """Make what chooses; it does from when it listens.

        Arguments:
            worklist: What visits the ops.
            figures: Of each op; `None` of those that are not to be priced.
            hardware: What is to take less time.
        """
        self.worklist = worklist
        self.figures = figures
        self.hardware = hardware
        self._record = worklist.on_change
        self._variants: dict[int, list[StepTable]] = {}

    def listen(self) -> None:
        """Choose from now on; who kept a record of changes is told of those that were chosen."""
        self._record = self.worklist.on_change
        self.worklist.on_change = self.chosen

    def chosen(self, op: int, table: StepTable, key: Key, changes: Changes) -> Change:
        """The change to make in the place of one: itself, or a rival of it."""
        best = op, table, key, changes
        rivals = [best, *self._own(best), *self._of_others(best)]
        if len(rivals) > 1:
            best = self._cheapest(rivals)
        return best if self._record is None else self._record(*best)

    # --- who competes

    def _own(self, change: Change) -> Iterator[Change]:
        """What the op of a change might do otherwise."""
        op, table, key, changes = change
        known = {changes}
        for variant in self._variants_of(table):
            other = variant[key]
            if other and other not in known:
                known.add(other)
                yield op, variant, key, other

    def _variants_of(self, table: StepTable) -> list[StepTable]:
        """The tables of an op that follow one of its tensors each."""
        variants = self._variants.get(id(table))
        if variants is None:
            rule = table.rule
            variants = self._variants[id(table)] = [
                StepTable(
                    table.numbers,
                    rule,
                    table.directions,
                    table.elementwise,
                    Preferred(tensor),
                    table.before,
                    table.after,
                    table.conservative,
                )
                for tensor in range(len(rule.operands) + len(rule.results))
            ]
        return variants

    def _of_others(self, change: Change) -> Iterator[Change]:
        """What other ops would do to a value that a change is for, where both cannot be."""
        op, _, _, changes = change
        values = self.worklist.tensors[op]
        for tensor, number in changes:
            value = values[tensor]
            around = self.worklist.notify[value]
            if op not in around:
                continue
            for other in dict.fromkeys(around):
                table = self.worklist.tables[other]
                if other != op and table is not None and table.before is None:
                    yield from self._of_other(other, table, value, number)

    def _of_other(self, op: int, table: StepTable, value: int, number: int) -> Iterator[Change]:
        tensors = self.worklist.tensors[op]
        state = self.worklist.state
        key = tuple([state[one] for one in tensors])
        first = op, table, key, table[key]
        for change in (first, *self._own(first)) if first[3] else ():
            if any(tensors[tensor] == value and not self._agree(number, theirs) for tensor, theirs in change[3]):
                yield change

    def _agree(self, one: int, other: int) -> bool:
        shardings = self.worklist.numbers.shardings
        left, right = shardings[one], shardings[other]
        return left is None or right is None or _agree(left, right)

    # --- what it takes

    def _cheapest(self, rivals: Sequence[Change]) -> Change:
        values = {self.worklist.tensors[op][tensor] for op, _, _, changes in rivals for tensor, _ in changes}
        ops = sorted({op for op, *_ in rivals}.union(*[self.worklist.notify[value] for value in values]))
        best, least = rivals[0], self._seconds(rivals[0], ops)
        for rival in rivals[1:]:
            seconds = self._seconds(rival, ops)
            if seconds < least * _ROUNDED:
                best, least = rival, seconds
        return best

    def _seconds(self, change: Change, ops: Iterable[int]) -> float:
        """What ops take once a change is made."""
        worklist = self.worklist
        op, _, _, changes = change
        after = {
            other: number
            for tensor, number in changes
            for value in (worklist.tensors[op][tensor],)
            for other in worklist.groups.get(value, (value,))
        }
        shardings = worklist.numbers.shardings
        total = 0.0
        for one in ops:
            figures = self.figures[one]
            if figures is not None:
                lies = tuple([shardings[after.get(value, worklist.state[value])] for value in worklist.tensors[one]])
                total += op_seconds(*figures[:4], lies, figures.times, self.hardware)
        return total


@memoize
def _agree(one: TensorSharding, other: TensorSharding) -> bool:
    """Whether a value may be sharded both ways at once: in every dimension further one way than the other."""
    axes = []
    for left, right in zip(one.axes, other.axes, strict=True):
        if not (prefix_status(left, right) or prefix_status(right, left)):
            return False
        axes.append(left if prefix_status(right, left) else right)
    return not any(
        overlaps_any(axis, used) for dim, used in enumerate(axes) for later in axes[dim + 1 :] for axis in later
    )


@memoize
def work_of(signature: Signature | None, rule: ShardingRule) -> tuple[ShardingRule, frozenset[int], int]:
    """The rule of an op, its factors that it cannot be split along, and the iterations of its loops.

    Without a signature nothing is computed: data flows from one place to another.
    """
    if signature is None:
        return rule, frozenset(), 0
    whole = rule.need_replication
    if not is_given(signature) and not rule.custom:
        whole |= rule.pass_through - local_factors_by(signature, rule)
    return rule, whole, iterations_of(signature, rule)
