"""Collectives before what makes their operand: where less is there to be moved, or devices then share the work.

    all_gather(convert(a))    to a wider type     →  convert(all_gather(a))
    all_gather(broadcast(a))                      →  broadcast(all_gather(a))
    all_slice(tanh(a))                            →  tanh(all_slice(a))

Legal where the op that makes the operand can be computed on operands that lie as the collective's result does, by its
rule, and leaves no contributions: layouts are all that changes, so it is so for all kinds and element types. An op that
adds up elements is computed on parts of another size then, which `exact` does without. What is done is what takes least
time: work that each device does for itself then counts against it.
"""

from __future__ import annotations

from shardwright.ir.graph import Op
from shardwright.optimize.draft import Draft
from shardwright.optimize.exactness import keeps_order
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.local_ops import is_local, layouts_for, results_of
from shardwright.optimize.registry import optimization
from shardwright.partition.options import with_option
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["pulled"]

_NAME = "collective-move-up"
_DEEPEST = 4
"""Past how many ops, one behind the other, a collective is brought."""


@optimization(
    _NAME,
    "Moves before an op what moves its result, where that is less, or work is shared then.",
    on=["sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.collective_permute"],
)
def pulled(op: Op, program: ExplicitProgram) -> bool:
    """Make a collective's result of the operands, or what these are made of, of the op that makes its operand."""
    (value,), (result,) = op.operands, op.results
    layout = program.layout(result)
    if layout is None or layout.partial:
        return False
    best: tuple[float, int, Draft] | None = None
    for depth in range(1, _DEEPEST + 1):
        draft = Draft(program)
        made = _version(draft, value, layout, op, depth)
        if made is None:
            break
        draft.replace(result, made)
        seconds = draft.saving().seconds
        if best is None or seconds > best[0]:
            best = seconds, depth, draft
    if best is None:
        return False
    return best[2].take(_NAME, op, f"it may come before {counted(best[1], 'op')} that lead to it")


def _version(draft: Draft, value: int, layout: TensorSharding, before: Op, depth: int) -> int | None:
    """A value in a layout, computed of operands in theirs so many ops back, which are brought there; `None` where the
    op that makes it cannot be computed so.
    """
    program = draft.program
    if not depth or program.layout(value) == layout:
        return draft.bring(value, layout, before)
    maker = program.maker(value)
    if maker is None or maker.regions or len(maker.results) != 1 or not is_local(maker.signature):
        return None
    now = program.layouts(maker.operands)
    if now is None or program.block_of(maker) is None or any(one.mesh != layout.mesh or one.partial for one in now):
        return None
    wanted = layouts_for(maker.signature, layout, now)
    made = results_of(maker.signature, wanted, (layout,))
    if made != (layout,) or not keeps_order(program.exact, maker.signature, wanted, made):
        return None
    operands: list[int] = []
    for operand, own in zip(maker.operands, wanted, strict=True):
        version = _version(draft, operand, own, before, depth - 1)
        if version is None:
            version = draft.bring(operand, own, before)
        if version is None:
            return None
        operands.append(version)
    return draft.compute(with_option(maker.signature, wanted, made), operands, made, before)[0]
