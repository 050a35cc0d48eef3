"""A value in another layout without communication: that it came from, a slice of it, or computed otherwise.

What a program reads in some layout another one may need in another: an operand of an op that is to be computed on
shards, or before its contributions are combined. Nothing is sent for it here; where it would have to be, there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.memo import memoize
from shardwright.optimize.draft import Draft
from shardwright.optimize.exactness import keeps_order
from shardwright.optimize.local_ops import is_local, operand_layouts, results_of
from shardwright.partition.options import with_option
from shardwright.partition.splits import counted_once, linear_operands
from shardwright.rules.traits import facts_of, is_scalar_expansion
from shardwright.sharding import TensorSharding
from shardwright.steps import AllSlice

__all__ = ["computed", "free_version"]

_DEEPEST = 3
"""Through how many ops, one behind the other, a version is looked for."""


def free_version(draft: Draft, value: int, layout: TensorSharding, before: Op, depth: int = _DEEPEST) -> int | None:
    """The value in a layout, just before an op, as far as nothing has to be sent for it; `None` where it has to be."""
    program = draft.program
    known = [value, *([draft.versions[value]] if value in draft.versions else [])]
    for one in known:
        if draft.layout(one) == layout:
            return one
    maker = program.maker(value) if value >= 0 else None
    is_moved = maker is not None and program.step(maker) is not None
    if maker is not None and is_moved and program.layout(maker.operands[0]) == layout:
        return maker.operands[0]
    is_fresh = maker is not None and not layout.partial and _is_fresh(maker) and not _reads_contributions(draft, maker)
    if maker is not None and is_fresh and layout.divides(program.type(value).dims):
        return draft.compute(maker.signature, maker.operands, (layout,), before)[0]
    for one in known:
        cut = _slice(draft.layout(one), layout)
        if cut is not None:
            return draft.take_steps(one, (cut,), before)
    if maker is not None and depth and len(program.readers(value)) == 1 and len(maker.results) == 1:
        return _computed_so(draft, maker, layout, before, depth)
    return None


def computed(
    draft: Draft, op: Op, number: int, value: int, before: Op, depth: int = _DEEPEST
) -> tuple[int, ...] | None:
    """The results of an op that reads `value` as its operand of that number, in whatever layout that lies.

    Others of its operands are brought where they have to lie then, for nothing; `None` where that cannot be, or where
    a sum would be made in another order than it must be.
    """
    program = draft.program
    now, results = program.layouts(op.operands), program.layouts(op.results)
    layout = draft.layout(value)
    if now is None or results is None or layout is None or op.regions or not is_local(op.signature):
        return None
    if program.block_of(op) is None or any(one.mesh != layout.mesh for one in (*now, *results)):
        return None
    wanted = operand_layouts(op.signature, number, layout, now, results)
    for partial in _partial_with(op, number, layout):
        layouts = tuple([_contributed(one, layout) if n in partial else one for n, one in enumerate(wanted)])
        made = results_of(op.signature, layouts, results)
        if made is None or not keeps_order(program.exact, op.signature, layouts, made):
            continue
        trial = draft.copy()
        values = _operands(trial, op, {number: value}, layouts, before, depth)
        if values is not None:
            draft.become(trial)
            return draft.compute(with_option(op.signature, layouts, made), values, made, before)
    return None


def _operands(
    draft: Draft, op: Op, given: dict[int, int], layouts: Sequence[TensorSharding], before: Op, depth: int
) -> list[int] | None:
    """The operands of an op in these layouts, some of them, by number, given."""
    values: list[int] = []
    same = {(op.operands[number], layouts[number]): value for number, value in given.items()}
    for number, (operand, layout) in enumerate(zip(op.operands, layouts, strict=True)):
        version = given.get(number, same.get((operand, layout)))
        if version is None:
            version = free_version(draft, operand, layout, before, depth - 1)
        if version is None:
            return None
        values.append(version)
    return values


def _computed_so(draft: Draft, op: Op, layout: TensorSharding, before: Op, depth: int) -> int | None:
    """The result of an op in a layout, of versions of its operands; for ops whose operands all lie as it does."""
    program = draft.program
    now, results = program.layouts(op.operands), program.layouts(op.results)
    if now is None or results is None or not is_local(op.signature) or program.block_of(op) is None:
        return None
    if any(type.dims != op.signature.results[0].dims for type in op.signature.operands):
        return None
    for partial in _sets(op, layout):
        layouts = tuple([layout if n in partial else layout.with_axes(layout.axes) for n in range(len(now))])
        made = results_of(op.signature, layouts, results)
        if made != (layout,) or not keeps_order(program.exact, op.signature, layouts, made):
            continue
        trial = draft.copy()
        values = _operands(trial, op, {}, layouts, before, depth)
        if values is not None:
            draft.become(trial)
            return draft.compute(with_option(op.signature, layouts, made), values, made, before)[0]
    return None


def _partial_with(op: Op, number: int, layout: TensorSharding) -> list[tuple[int, ...]]:
    """The sets of operands that may be partial together with one; none but an empty one where it is not partial."""
    return [together for together in _sets(op, layout) if not together or number in together]


def _sets(op: Op, layout: TensorSharding) -> list[tuple[int, ...]]:
    """The sets of operands that may be partial as `layout` is, the largest first: most collectives go with these."""
    kinds = {partial.kind for partial in layout.partial}
    if not kinds:
        return [()]
    if len(kinds) != 1:
        return []
    (kind,) = kinds
    once = [(number,) for number in sorted(counted_once(op.signature))] if kind == "sum" else []
    return sorted([*linear_operands(op.signature, kind), *once], key=len, reverse=True)


def _contributed(layout: TensorSharding, like: TensorSharding) -> TensorSharding:
    return layout.with_axes(layout.axes, like.partial).closed()


def _is_fresh(op: Op) -> bool:
    """Whether any device can make any shard of what an op makes: a constant, an iota, a scalar in all places."""
    return facts_of(op.name).constant or is_scalar_expansion(op.signature)


def _reads_contributions(draft: Draft, op: Op) -> bool:
    """Whether what it makes is as partial as what it reads."""
    layouts = map(draft.program.layout, op.operands)
    return any(layout.partial for layout in layouts if layout is not None)


@memoize
def _slice(before: TensorSharding | None, after: TensorSharding) -> AllSlice | None:
    """The step between two layouts where it is a slice."""
    if before is None or before.mesh != after.mesh or before.partial != after.partial:
        return None
    step = AllSlice(tuple([new[len(old) :] for old, new in zip(before.axes, after.axes, strict=True)]))
    try:
        return step if step.apply(before) == after else None
    except ShardingError:
        return None
