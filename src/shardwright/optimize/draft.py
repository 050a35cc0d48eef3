"""Ops that could take the place of others: what they would save is known before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from shardwright.cost.hardware import Links
from shardwright.cost.price import Cost
from shardwright.ir.graph import Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.optimize.explicit import ExplicitProgram, is_pure, plan_between
from shardwright.partition.emit import collective
from shardwright.partition.search.total import computed_cost, steps_cost
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["Draft", "Saving"]

_LEAST = 1e-9
"""What a draft has to save of the time of what it replaces: less may be rounding."""


class Saving(NamedTuple):
    """What a draft would save in one run of the program: bytes that a device sends, seconds, and ops."""

    bytes: float
    seconds: float
    ops: int
    before: float
    """The seconds that what it replaces takes."""

    @property
    def is_worth_it(self) -> bool:
        """Whether it saves time, or, at no cost, ops."""
        if self.seconds > _LEAST * self.before:
            return True
        return self.seconds >= -_LEAST * self.before and self.ops > 0 and self.bytes >= 0


@memoize
def _taken(
    step: Step, type: TensorType, layout: TensorSharding, links: Links | None
) -> tuple[Signature, TensorSharding, Cost]:
    """The op that takes a step, how its result lies, and what it costs."""
    return collective(step, type), step.apply(layout), steps_cost(type, layout, (step,), links)


class _Drafted(NamedTuple):
    """An op that is to stand just before another one; its values have negative numbers."""

    signature: Signature
    operands: tuple[int, ...]
    results: tuple[int, ...]
    before: Op
    cost: Cost


class Draft:
    """Ops to put in, and the values that are read in place of others then.

    Values that the draft makes have negative numbers. What nobody reads any more goes with the values replaced.

    Attributes:
        versions: Values of the program, each with another that holds the same data in another layout.
    """

    def __init__(self, program: ExplicitProgram) -> None:
        """Nothing yet."""
        self.program = program
        self._ops: list[_Drafted] = []
        self._values: list[tuple[TensorType, TensorSharding]] = []
        self._replaced: dict[int, int] = {}
        self._dropped: list[int] = []
        self.versions: dict[int, int] = {}

    def copy(self) -> Draft:
        """Another draft that begins like this one."""
        other = Draft(self.program)
        other._ops, other._values = [*self._ops], [*self._values]
        other._replaced, other._dropped = {**self._replaced}, [*self._dropped]
        other.versions = {**self.versions}
        return other

    def become(self, other: Draft) -> None:
        """Go on as another draft that began like this one."""
        self._ops, self._values = other._ops, other._values
        self._replaced, self.versions = other._replaced, other.versions

    def type(self, value: int) -> TensorType:
        """The type of a value of the program or of the draft."""
        return self._values[-value - 1][0] if value < 0 else self.program.type(value)

    def layout(self, value: int) -> TensorSharding | None:
        """How a value of the program or of the draft lies."""
        return self._values[-value - 1][1] if value < 0 else self.program.layout(value)

    def is_replaced(self, value: int) -> bool:
        """Whether another value is read in place of this one."""
        return value in self._replaced

    # What is drafted

    def compute(
        self, signature: Signature, operands: Sequence[int], results: tuple[TensorSharding, ...], before: Op
    ) -> tuple[int, ...]:
        """An op that is computed on shards as they lie, just before another one; its results."""
        layouts = tuple(map(self.layout, operands))
        cost = computed_cost(signature, layouts, results, self.program.hardware)
        return self._add(signature, operands, results, before, cost)

    def take_steps(self, value: int, steps: tuple[Step, ...], before: Op) -> int:
        """The value that collectives lead to from another one, just before an op."""
        for step in steps:
            type, layout = self.type(value), self.layout(value)
            assert layout is not None, "what is no tensor takes no steps"
            signature, after, cost = _taken(step, type, layout, self.program.hardware.links)
            (value,) = self._add(signature, (value,), (after,), before, cost)
        return value

    def bring(self, value: int, layout: TensorSharding, before: Op) -> int | None:
        """A value brought into a layout by the cheapest chain of steps; `None` where there is none."""
        own = self.layout(value)
        if own is None or own == layout:
            return None if own is None else value
        steps = plan_between(self.type(value), own, layout)
        return None if steps is None else self.take_steps(value, steps, before)

    def replace(self, value: int, other: int) -> None:
        """Let another value be read in place of one."""
        self._replaced[value] = other

    def drop(self, value: int) -> None:
        """Let go of a value that nobody reads."""
        self._dropped.append(value)

    def _add(
        self,
        signature: Signature,
        operands: Sequence[int],
        layouts: tuple[TensorSharding, ...],
        before: Op,
        cost: Cost,
    ) -> tuple[int, ...]:
        first = -len(self._values) - 1
        self._values += zip(signature.results, layouts, strict=True)
        results = tuple(range(first, first - len(layouts), -1))
        self._ops.append(_Drafted(signature, tuple(operands), results, before, cost))
        return results

    # What it saves

    def saving(self) -> Saving:
        """What it would save."""
        program, gone = self.program, self._unread()
        bytes = seconds = before = 0.0
        for op in gone:
            cost, times = program.cost(op), program.times(op)
            bytes += cost.bytes_sent * times
            before += program.seconds(cost) * times
        for drafted in self._ops:
            times = program.times(drafted.before)
            bytes -= drafted.cost.bytes_sent * times
            seconds -= program.seconds(drafted.cost) * times
        return Saving(bytes, before + seconds, len(gone) - len(self._ops), before)

    def _unread(self) -> list[Op]:
        """The ops that nobody would read, those that read others first."""
        program = self.program
        kept = {value for drafted in self._ops for value in drafted.operands} | set(self._replaced.values())
        unread: dict[Op, None] = {}
        waiting = [*self._replaced, *self._dropped]
        while waiting:
            maker = program.maker(waiting.pop())
            if maker is None or maker in unread or program.block_of(maker) is None or not is_pure(maker):
                continue
            if all(self._is_unread(value, kept, unread) for value in maker.results):
                unread[maker] = None
                waiting += maker.operands
        return list(unread)

    def _is_unread(self, value: int, kept: set[int], unread: dict[Op, None]) -> bool:
        if value in kept:
            return False
        return value in self._replaced or unread.keys() >= self.program.rewriter.uses[value].keys()

    # Doing it

    def take(self, by: str, op: Op, reason: str, least: Saving | None = None) -> bool:
        """Change the program so, if that is worth it, and note in whose name, at which op and why; whether it was."""
        saving = self.saving() if least is None else least
        if not saving.is_worth_it:
            return False
        gone, program = self._unread(), self.program
        program.note(by, op, reason, saving.bytes, saving.seconds)
        made: dict[int, int] = {}
        for drafted in self._ops:
            self._put_in(drafted, made, op.location, reason)
        rewriter = program.rewriter
        for value, other in self._replaced.items():
            rewriter.replace_uses(value, made.get(other, other), reason)
        for unread in gone:
            program.gone(unread)
            rewriter.erase(unread, reason)
        return True

    def _put_in(self, drafted: _Drafted, made: dict[int, int], location: int, reason: str) -> None:
        program = self.program
        block = program.block_of(drafted.before)
        assert block is not None, "ops are drafted where the program may be changed"
        op = program.rewriter.create(
            drafted.signature,
            [made.get(value, value) for value in drafted.operands],
            program.rewriter.before(drafted.before),
            reason,
            shardings=[self.layout(value) for value in drafted.results],
            location=location if drafted.signature.step is not None else drafted.before.location,
        )
        made.update(zip(drafted.results, op.results, strict=True))
        program.came(op, block)
