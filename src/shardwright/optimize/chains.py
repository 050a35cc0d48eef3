"""Collectives one behind the other, and the values that hold the same data in other layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shardwright.ir.graph import Op
from shardwright.optimize.draft import Draft
from shardwright.optimize.exactness import reductions
from shardwright.optimize.explicit import ExplicitProgram, plan_between
from shardwright.steps import Step

__all__ = ["Origin", "origins", "shortened"]

_LONGEST = 8
"""How many collectives one behind the other are looked at."""


class Origin(NamedTuple):
    """A value from which a collective's result comes by collectives alone."""

    value: int
    steps: tuple[Step, ...]


def origins(op: Op, program: ExplicitProgram) -> Iterator[Origin]:
    """The values that a collective's result comes from, the nearest, its operand, first."""
    steps: tuple[Step, ...] = ()
    maker: Op | None = op
    while maker is not None and len(steps) < _LONGEST:
        step = program.step(maker)
        if step is None:
            return
        steps = (step, *steps)
        yield Origin(maker.operands[0], steps)
        maker = program.maker(maker.operands[0])


def shortened(name: str, op: Op, program: ExplicitProgram, origin: Origin, reason: str) -> bool:
    """Replace the collectives from an origin to the result of one by the cheapest chain, where that is worth it."""
    (result,) = op.results
    before, after, type = program.layout(origin.value), program.layout(result), program.type(result)
    if before is None or after is None:
        return False
    steps = plan_between(type, before, after)
    if steps is None or (program.exact and reductions(type, steps) != reductions(type, origin.steps)):
        return False
    draft = Draft(program)
    draft.replace(result, draft.take_steps(origin.value, steps, op))
    return draft.take(name, op, reason)
