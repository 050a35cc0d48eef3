"""Reductions behind what is linear in what they reduce: fewer, or of less.

    add(all_reduce(x), all_reduce(y))           →  all_reduce(add(x, y))
    add(reduce_scatter(x), reduce_scatter(y))   →  reduce_scatter(add(x, y))

Legal where every op that comes before the reduction then is linear in the operands that are partial
(`linear_operands`: what adds, scales by what is the same on all devices, or moves elements; of a maximum what takes
maxima or moves), and all of these are partial along the same axes by the same kind. What converts to another type is
not: a sum of rounded parts is not the rounded sum. Sums of integers stay where they are, as in the partitioner.
Floating-point sums are added in another order, so `exact` lets pass only what moves elements or changes their sign.

A reduce_scatter that comes later has ops computed on whole contributions, and their other operands must be there whole,
or be what any device can make; work and bytes are weighed by the price.

Sources: document 003, "AllReduce Reassociate Pass" and "ReduceScatter Reassociate Pass".
"""

from __future__ import annotations

from shardwright.ir.graph import Op
from shardwright.optimize.carrying import best_carried
from shardwright.optimize.draft import Draft
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.registry import optimization
from shardwright.words import counted

__all__ = ["all_reduce_later", "reduce_scatter_later"]

_REDUCE, _SCATTER = "all-reduce-reassociate", "reduce-scatter-reassociate"


@optimization(
    _REDUCE,
    "Reduces behind ops that are linear in what is reduced, where less is.",
    on=["sdy.all_reduce"],
    is_weighed=True,  # a sum that others were to start with waits for more then, or is along other axes
)
def all_reduce_later(op: Op, program: ExplicitProgram) -> bool:
    """Compute what reads an all_reduce on contributions, and reduce what comes of it."""
    return _reduced_later(_REDUCE, op, program)


@optimization(_SCATTER, "The same of reduce_scatters.", on=["sdy.reduce_scatter"], is_weighed=True)
def reduce_scatter_later(op: Op, program: ExplicitProgram) -> bool:
    """Compute what reads a reduce_scatter on contributions, and reduce and scatter what comes of it."""
    return _reduced_later(_SCATTER, op, program)


def _reduced_later(name: str, op: Op, program: ExplicitProgram) -> bool:
    best = best_carried(program, op, Draft(program), op.operands[0], ())
    if best is None or not best.saving.is_worth_it:
        return False
    return best.draft.take(
        name, op, f"{counted(best.passed, 'op')} behind it may come before the reduction", best.saving
    )
