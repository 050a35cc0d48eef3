"""Ops that read what a collective makes, computed on what it is made of: the collective comes behind them, or nowhere.

    %1 = all_gather %0        [{x}] → [{}]            %1 = convert %0        [{x}]
    %2 = convert %1           [{}]              →     %2 = all_gather %1     [{x}] → [{}]

Ops are taken up one after the other, as they stand in the block, each that can be computed so; what others read of them
is brought into the layout that it had. After each it is known what the program would save if no more were taken up, and
the best of that is done: ops are passed at which nothing is gained if something is behind them.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from shardwright.cost.price import Cost
from shardwright.ir.graph import Op
from shardwright.optimize.draft import Draft, Saving
from shardwright.optimize.exactness import reductions
from shardwright.optimize.explicit import ExplicitProgram, plan_between
from shardwright.optimize.versions import computed
from shardwright.sharding import TensorSharding
from shardwright.steps import Step

__all__ = ["Carried", "best_carried"]

_MOST = 24
"""How many ops are looked at behind a collective."""


class Carried(NamedTuple):
    """What a program becomes whose ops behind a collective are computed on another version of its result.

    Attributes:
        draft: The ops.
        saving: What that saves.
        passed: How many ops were taken up.
    """

    draft: Draft
    saving: Saving
    passed: int


def best_carried(
    program: ExplicitProgram, op: Op, draft: Draft, version: int, steps: tuple[Step, ...]
) -> Carried | None:
    """The best of computing so many ops behind a collective on another version of its result; `None` where none can be.

    Arguments:
        program: Where the collective stands.
        op: The collective.
        draft: What makes the version.
        version: The data of the collective's result in another layout.
        steps: How that is made from the collective's operand.
    """
    carrying, best = _Carrying(program, op, draft, version, steps), None
    stages: list[_Stage] = []
    while carrying.advance():
        stages.append(_Stage(carrying.draft.copy(), frozenset(carrying.taken)))
    for stage in stages if carrying.may_pay() else ():
        ended = carrying.ended(stage)
        if ended is None:
            continue
        saving = ended.saving()
        if best is None or saving.seconds > best.saving.seconds:
            best = Carried(ended, saving, len(stage.taken))
    return best


class _Stage(NamedTuple):
    """What was drafted when so many ops were taken up."""

    draft: Draft
    taken: frozenset[Op]


class _Path(NamedTuple):
    """The steps that the data of a value took: those of the program, and those of the draft to its version."""

    now: tuple[Step, ...]
    then: tuple[Step, ...]


class _Carrying:
    def __init__(self, program: ExplicitProgram, op: Op, draft: Draft, version: int, steps: tuple[Step, ...]) -> None:
        self.program = program
        self.op = op
        self.draft = draft
        self.taken: set[Op] = set()
        self._seen: set[Op] = set()
        self._waiting: list[tuple[float, int, Op]] = []
        self._paths: dict[int, _Path] = {}
        self._block = program.block_of(op)
        self._is_drafted = version < 0
        step = program.step(op)
        assert step is not None, "what is carried is behind a collective"
        self._know(op.results[0], version, _Path((step,), steps))

    def _know(self, value: int, version: int, path: _Path) -> None:
        """Know of a version, and wait for the ops of the block that read the value."""
        self.draft.versions[value] = version
        self._paths[value] = path
        for reader in self.program.readers(value):
            if self.program.block_of(reader) is self._block and reader not in self._seen:
                self._seen.add(reader)
                heappush(self._waiting, (self.program.place(reader), len(self._seen), reader))

    def advance(self) -> bool:
        """Take up the next op that can be; whether there was one."""
        while self._waiting and len(self._seen) < _MOST:
            _, _, op = heappop(self._waiting)
            if self._takes_step(op) if self.program.step(op) is not None else self._computes(op):
                self.taken.add(op)
                return True
        return False

    def _takes_step(self, op: Op) -> bool:
        """Bring a version to where a collective leads: from there on all is as it was."""
        program, (value,), (result,) = self.program, op.operands, op.results
        step, path, layout = program.step(op), self._paths[value], program.layout(result)
        assert step is not None
        assert layout is not None
        steps = self._steps(value, layout)
        if steps is None or not self._keeps_order(value, (*path.now, step), (*path.then, *steps)):
            return False
        self.draft.replace(result, self.draft.take_steps(self.draft.versions[value], steps, op))
        return True

    def _computes(self, op: Op) -> bool:
        versions = self.draft.versions
        for number, value in enumerate(op.operands):
            made = computed(self.draft, op, number, versions[value], op) if value in versions else None
            if made is not None:
                for result, version in zip(op.results, made, strict=True):
                    self._know(result, version, self._paths[value])
                return True
        return False

    def may_pay(self) -> bool:
        """Whether any stage can save time, by a bound: that of the last one if what is left to be read were there.

        It is not where a reduction was decomposed: then somebody has to gather, at every stage, unless all is taken up.
        """
        if not self._is_drafted:
            return True
        draft, program = self.draft.copy(), self.program
        for value, version in self.draft.versions.items():
            draft.replace(value, version)
        left = [value for value in self.draft.versions if not self.taken.issuperset(program.readers(value))]
        gathers = left and all(self._steps(value, layout) for value in left if (layout := program.layout(value)))
        return draft.saving().seconds > (program.seconds(Cost(starts=1)) if gathers else 0.0)

    def ended(self, stage: _Stage) -> Draft | None:
        """What the program becomes if no more ops are taken up; `None` where a value cannot be brought back."""
        draft, program = stage.draft.copy(), self.program
        for value, version in stage.draft.versions.items():
            if value in self.op.results and not self._is_drafted:
                continue  # who is left reads what the collective makes, as before
            if stage.taken.issuperset(program.readers(value)):
                continue
            maker, layout, path = program.maker(value), program.layout(value), self._paths[value]
            assert maker is not None
            assert layout is not None
            steps = self._steps(value, layout)
            if steps is None or not self._keeps_order(value, path.now, (*path.then, *steps)):
                return None
            draft.replace(value, draft.take_steps(version, steps, maker))
        return draft

    def _steps(self, value: int, layout: TensorSharding) -> tuple[Step, ...] | None:
        """The cheapest chain from the version of a value to a layout."""
        own = self.draft.layout(self.draft.versions[value])
        return None if own is None else plan_between(self.program.type(value), own, layout)

    def _keeps_order(self, value: int, now: tuple[Step, ...], then: tuple[Step, ...]) -> bool:
        type = self.program.type(value)
        return not self.program.exact or reductions(type, now) == reductions(type, then)
