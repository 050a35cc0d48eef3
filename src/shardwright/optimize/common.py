"""Common collectives: what is in a layout already, or nearer to it, is not brought there a second time.

    %1 = all_gather %0    [{x}] → [{}]                  %1 = all_gather %0    [{x}] → [{}]
    %2 = all_gather %0    [{x}] → [{}]           →      … %1 in place of %2

Legal for all kinds and types: collectives between ops leave the data what it is, so a value that comes from the same
one, in whatever layout, is as good a source as any, if it is computed where the other one is read: before it in its
block, or in one around it. Values are the same that the same ops make of the same operands, if these do nothing else.
Where floating-point sums keep their order, both ways there must reduce along the same axes at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardwright.ir.graph import Op
from shardwright.ir.ops import COLLECTIVES
from shardwright.optimize.chains import origins
from shardwright.optimize.draft import Draft
from shardwright.optimize.exactness import reductions
from shardwright.optimize.explicit import ExplicitProgram, is_pure, plan_between
from shardwright.optimize.registry import optimization
from shardwright.steps import Step

__all__ = ["shared"]

_NAME = "common-collectives"
_DEEPEST = 4
"""Through how many ops, one behind the other, values are found to be the same."""

_MOST = 16
"""How many versions of a value are looked at."""


@optimization(_NAME, "Shares collectives: what is in a layout already is not brought there again.", on=COLLECTIVES)
def shared(op: Op, program: ExplicitProgram) -> bool:
    """Make a collective's result of another version of the same value, where that is cheaper."""
    (result,) = op.results
    layout, type = program.layout(result), program.type(result)
    if layout is None:
        return False
    drafts: list[tuple[float, int, Draft]] = []
    for value, now, then in _others(op, program):
        own = program.layout(value)
        steps = None if own is None else plan_between(type, own, layout)
        if steps is None or (program.exact and reductions(type, now) != reductions(type, (*then, *steps))):
            continue
        draft = Draft(program)
        draft.replace(result, draft.take_steps(value, steps, op))
        drafts.append((draft.saving().seconds, -len(drafts), draft))
    return bool(drafts) and max(drafts)[2].take(_NAME, op, "another version of the same value is there")


def _others(op: Op, program: ExplicitProgram) -> Iterator[tuple[int, tuple[Step, ...], tuple[Step, ...]]]:
    """Values that hold the same data as a collective's result and are there before it, not on the way to it: each with
    the steps to the result from a value that both come from, and those to the other.
    """
    found = 0
    own = {op.results[0], *(origin.value for origin in origins(op, program))}
    for value, steps in origins(op, program):
        for same in _same(value, op, program, _DEEPEST):
            if same not in own:
                yield same, steps, ()
            for other, taken in _versions(same, op, program):
                if other not in own and found < _MOST:
                    found += 1
                    yield other, steps, taken


def _versions(value: int, op: Op, program: ExplicitProgram) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """The values that collectives make of one before an op, with the steps that they take."""
    waiting: list[tuple[int, tuple[Step, ...]]] = [(value, ())]
    while waiting:
        held, taken = waiting.pop()
        for reader in program.readers(held):
            step = program.step(reader)
            if step is not None and reader is not op and program.is_before(reader, op) and len(taken) < _DEEPEST:
                waiting.append((reader.results[0], (*taken, step)))
                yield waiting[-1]


def _same(value: int, op: Op, program: ExplicitProgram, depth: int) -> list[int]:
    """The values that are the same as one and are there before an op, itself among them."""
    maker = program.maker(value)
    if maker is None or not depth or not is_pure(maker):
        return [value]
    known = next((operand for operand in maker.operands if not _is_made_of_nothing(operand, program)), None)
    if known is None:
        return [value]
    found = [value]
    for other in _same(known, op, program, depth - 1):
        found += [
            reader.results[maker.results.index(value)]
            for reader in program.readers(other)
            if reader is not maker and program.is_before(reader, op) and _computes_same(maker, reader, program, depth)
        ]
    return found


def _computes_same(one: Op, other: Op, program: ExplicitProgram, depth: int) -> bool:
    """Whether two ops compute the same."""
    if one is other:
        return True
    if one.signature != other.signature or not is_pure(one) or not depth:
        return False
    if any(program.layout(a) != program.layout(b) for a, b in zip(one.results, other.results, strict=True)):
        return False
    pairs = zip(one.operands, other.operands, strict=True)
    return all(a == b or _makes_same(a, b, program, depth - 1) for a, b in pairs)


def _makes_same(one: int, other: int, program: ExplicitProgram, depth: int) -> bool:
    first, second = program.maker(one), program.maker(other)
    if first is None or second is None or first.results.index(one) != second.results.index(other):
        return False
    return _computes_same(first, second, program, depth)


def _is_made_of_nothing(value: int, program: ExplicitProgram) -> bool:
    maker = program.maker(value)
    return maker is not None and not maker.operands
