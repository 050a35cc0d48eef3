"""All_gathers behind what can be computed on shards, and all_reduces that are reduce_scatters then.

    convert(all_gather(a))                        →  all_gather(convert(a))       of smaller elements
    reduce(all_gather(a))                         →  all_reduce(reduce(a))        of fewer
    dot(maximum(all_reduce(a), c), w)             →  dot(all_gather(maximum(reduce_scatter(a), slice(c))), w)
    convert(all_to_all(a))                        →  all_to_all(convert(a))       of smaller elements

Legal where each op that comes before the all_gather then is one that its rule lets be computed in parts along the
gathered dimension, and its other operands are there in the same parts: sliced of what is whole, made by any device, or
what was gathered of just them. A reduction along the gathered dimension leaves contributions, and a reduction takes the
place of the all_gather; sums of floating-point numbers are then added in another order, so `exact` does without. An
all_reduce and a reduce_scatter add up alike, so decomposing one is exact for all kinds and types.

What is done is what takes least time by the price: bytes, starts, and the work that devices then share.

Sources: document 003, "AllGather Move Down Pass"; document 002, "All-Reduce decompose & All-Gather move down".
"""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.optimize.carrying import Carried, best_carried
from shardwright.optimize.draft import Draft
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.registry import optimization
from shardwright.steps import AllReduce, ReduceScatter
from shardwright.words import counted

__all__ = ["decomposed", "gathered_later", "moved_later"]

_GATHER, _MOVE, _DECOMPOSE = "all-gather-move-down", "collective-move-down", "all-reduce-decompose"


@optimization(
    _GATHER,
    "Gathers behind ops that can be computed on shards, where less is.",
    on=["sdy.all_gather"],
    is_weighed=True,  # others may have been to start with it
)
def gathered_later(op: Op, program: ExplicitProgram) -> bool:
    """Compute what reads an all_gather on shards, and gather what comes of it."""
    return _later(_GATHER, op, program)


@optimization(
    _MOVE,
    "Moves shards to other devices behind ops that can be computed on them where they are, where less is.",
    on=["sdy.all_to_all", "sdy.collective_permute"],
)
def moved_later(op: Op, program: ExplicitProgram) -> bool:
    """Compute what reads shards that were moved where they were, and move what comes of it."""
    return _later(_MOVE, op, program)


@optimization(
    _DECOMPOSE,
    "Makes an all_reduce a reduce_scatter and an all_gather, where that can come later or go.",
    on=["sdy.all_reduce"],
    is_weighed=True,  # a sum that others were to start with is another collective then
)
def decomposed(op: Op, program: ExplicitProgram) -> bool:
    """Scatter what is reduced along the dimension by which most time is saved, and gather what comes of it.

    Where several save as much, along one that is split already.
    """
    best = max(filter(None, _scattered(op, program)), key=lambda carried: carried.saving.seconds, default=None)
    if best is None:
        return False
    what = counted(best.passed, "op")
    return best.draft.take(_DECOMPOSE, op, f"a part of what is reduced is enough for {what} behind it", best.saving)


def _later(name: str, op: Op, program: ExplicitProgram) -> bool:
    best = best_carried(program, op, Draft(program), op.operands[0], ())
    if best is None:
        return False
    reason = f"{counted(best.passed, 'op')} behind it can be computed on the shards that it takes"
    return best.draft.take(name, op, reason, best.saving)


def _scattered(op: Op, program: ExplicitProgram) -> list[Carried | None]:
    """What comes of scattering along each dimension."""
    step, layout, type = program.step(op), program.layout(op.operands[0]), program.type(op.operands[0])
    if not isinstance(step, AllReduce) or layout is None:
        return []
    found = []
    for dim in sorted(range(type.rank), key=lambda dim: not layout.axes[dim]):
        scatter = ReduceScatter(tuple([step.axes if place == dim else () for place in range(type.rank)]), step.kind)
        try:
            after = scatter.apply(layout)
        except ShardingError:
            continue
        if after.divides(type.dims):
            draft = Draft(program)
            version = draft.take_steps(op.operands[0], (scatter,), op)
            found.append(best_carried(program, op, draft, version, (scatter,)))
    return found
