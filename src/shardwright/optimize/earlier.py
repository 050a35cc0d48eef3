"""Reductions before an op that waits for another reduction, so that both can start together, or that compilers fuse.

    %c = all_reduce %count            %c = all_reduce %count
    %m = divide %sum, %c       →      %s = all_reduce %sum
    %r = all_reduce %m                %r = divide %s, %c

    %m = multiply %rate, %p           %s = all_reduce %p
    %s = all_reduce %m         →      %m = multiply %rate, %s
    %w = subtract %v, %s              %w = subtract %v, %m

The partitioner reduces as late as possible, which spares most where several contributions meet. Of a mean, and of any
ratio of two sums, that makes the one reduction wait for the other: twice a start, where one would do for both
(`bucketing`, or the combiners of XLA). And what is computed element by element between a product and the reduction is
written to memory once more; behind the reduction compilers compute it where it is read.

Legal as in `reassociation`, the other way round: the op is linear in the one operand that is partial. Sums of floating-
point numbers are rounded in another order, so `exact` lets pass only what moves elements or changes their sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shardwright.ir.graph import Op
from shardwright.optimize.draft import Draft, Saving
from shardwright.optimize.exactness import keeps_order
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.joining import kind_of
from shardwright.optimize.local_ops import Layouts, is_local, results_of
from shardwright.optimize.registry import optimization
from shardwright.partition.options import with_option
from shardwright.rules.traits import facts_of
from shardwright.steps import Step
from shardwright.words import counted

__all__ = ["all_reduce_earlier"]

_NAME = "all-reduce-move-up"
_DEEPEST = 4
"""Past how many ops, one behind the other, a reduction is brought."""
_ONE_START = Saving(0.0, 0.0, ops=1, before=0.0)
"""What is saved: a collective, whose time whoever puts both together tells."""
_MOST = 256
"""How many ops are looked at that lead to a value."""


@optimization(
    _NAME,
    "Reduces before ops that wait for another reduction, or that are computed where they are read then.",
    on=["sdy.all_reduce"],
)
def all_reduce_earlier(op: Op, program: ExplicitProgram) -> bool:
    """Reduce what is partial before the ops that make of it what is reduced now, up to one that waits."""
    step = program.step(op)
    if step is None or kind_of(program, op) is None:
        return False
    passed: list[_Passed] = []
    while len(passed) < _DEEPEST:
        one = _before(program, op, passed[-1] if passed else None)
        if one is None:
            break
        passed.append(one)
        if _waits(program, op, one):
            reason = f"before {counted(len(passed), 'op')} it may start together with the one that these wait for"
            draft = _moved(program, op, step, passed)
            return draft.take(_NAME, op, reason, _ONE_START._replace(bytes=draft.saving().bytes))
    spared = _spared(program, op, passed)
    if not spared:
        return False
    draft = _moved(program, op, step, passed)
    saving = draft.saving()
    reason = f"before {counted(len(passed), 'op')} that may be computed where the sum is read"
    return draft.take(_NAME, op, reason, saving._replace(seconds=saving.seconds + spared))


def _moved(program: ExplicitProgram, op: Op, step: Step, passed: Sequence[_Passed]) -> Draft:
    """The program with a reduction before some ops."""
    draft = Draft(program)
    made = draft.take_steps(passed[-1].value, (step,), op)
    for one in reversed(passed):
        operands = [*one.op.operands[: one.number], made, *one.op.operands[one.number + 1 :]]
        (made,) = draft.compute(with_option(one.op.signature, one.operands, one.results), operands, one.results, op)
    draft.replace(op.results[0], made)
    return draft


class _Passed(NamedTuple):
    """An op that comes behind a reduction.

    Attributes:
        op: The op.
        number: Which of its operands is partial.
        operands: How these lie then.
        results: How its result does.
    """

    op: Op
    number: int
    operands: Layouts
    results: Layouts

    @property
    def value(self) -> int:
        """The operand that is partial."""
        return self.op.operands[self.number]


def _before(program: ExplicitProgram, op: Op, behind: _Passed | None) -> _Passed | None:
    """The op before a reduction, or before one that comes behind it already; `None` where that cannot.

    It is what makes for them alone what is partial, and no less of it than its own operand is.
    """
    value, reader, results = op.operands[0], op, program.layouts(op.results)
    if behind is not None:
        value, reader, results = behind.value, behind.op, (behind.operands[behind.number],)
    maker = program.maker(value)
    if maker is None or maker.regions or len(maker.results) != 1 or program.readers(value) != [reader]:
        return None
    now, before = program.layouts(maker.operands), program.layouts(maker.results)
    if program.block_of(maker) is not program.block_of(op) or not is_local(maker.signature):
        return None
    partial = [number for number, layout in enumerate(now or ()) if layout.partial]
    if now is None or before is None or results is None or len(partial) != 1:
        return None
    (number,) = partial
    then = (*now[:number], now[number].with_axes(now[number].axes).closed(), *now[number + 1 :])
    grows = program.local_bytes(maker.operands[number]) > program.local_bytes(value)
    if grows or now[number].partial != before[0].partial or results_of(maker.signature, then, results) != results:
        return None
    return _Passed(maker, number, then, results) if keeps_order(program.exact, maker.signature, now, before) else None


def _waits(program: ExplicitProgram, op: Op, passed: _Passed) -> bool:
    """Whether an op waits for a reduction of the same kind in the block that its partial operand does not wait for."""
    leading = _leading(program, op, [value for value in passed.op.operands if value != passed.value])
    alike = {other for other in leading if other.name == op.name and kind_of(program, other) == kind_of(program, op)}
    if not alike:
        return False
    own = _leading(program, op, [passed.value])
    return len(own) < _MOST and bool(alike - own)


def _spared(program: ExplicitProgram, op: Op, passed: Sequence[_Passed]) -> float:
    """The seconds of writing what is reduced and reading it again, where compilers need not if it is reduced before.

    They fuse what is elementwise with what is so too and reads it; nothing is spared where the contributions are
    computed element by element themselves, or what reads the sum is not.
    """
    speed = program.hardware.memory_bytes_per_second
    (result,) = op.results
    readers = program.readers(result)
    if speed is None or not any(_is_elementwise(one.op) for one in passed):
        return 0.0
    maker = program.maker(passed[-1].value)
    if maker is None or _is_fused(maker) or not readers or not all(map(_is_elementwise, readers)):
        return 0.0
    return 2 * program.local_bytes(result) / speed


def _is_elementwise(op: Op) -> bool:
    return facts_of(op.name).elementwise and not op.name.startswith("sdy.")


def _is_fused(op: Op) -> bool:
    """Whether compilers may compute an op where it is read."""
    facts = facts_of(op.name)
    return facts.elementwise or facts.moves or facts.constant or facts.computed_where_read


def _leading(program: ExplicitProgram, op: Op, values: Iterable[int]) -> set[Op]:
    """The ops of a block, up to so many, that lead to some values."""
    block = program.block_of(op)
    found: dict[Op, None] = {}
    waiting = list(values)
    while waiting and len(found) < _MOST:
        maker = program.maker(waiting.pop())
        if maker is not None and maker not in found and program.block_of(maker) is block:
            found[maker] = None
            waiting += maker.reads()
    return set(found)
