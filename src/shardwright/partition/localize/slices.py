"""Slices of dimensions that are split: devices fetch the rows of their part from those that have them.

Where the stride divides a shard, each device takes the rows that are kept first, and of these windows are shifted; a
slice that takes a dimension in such steps from its beginning sends nothing. Any other stride is taken in the window.

    x[3:11:2] of 16 rows in 4 shards: rows 3, 5, 7, 9
    rows 1, 3 of every shard are kept, 8 in all; of those device s needs one, the row 1 + s

A few rows, mostly those of one device, are contributions to a sum: each device puts zeros for what it has not. So the
last row of a split sequence is one row to be sent, over however many devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.axes import axes_size
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike, require_partial, require_whole
from shardwright.partition.localize.contributions import contribution, index_dtype, with_contributions
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, localizer
from shardwright.partition.localize.shifts import cut, fetch, resized, sends
from shardwright.partition.localize.windows import Window
from shardwright.routes import ceil_div
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What happens to a dimension of which devices fetch windows.

    Attributes:
        dim: The dimension.
        window: The rows that each device needs, of those that are kept before.
        step: Every how many of these it takes in the end.
        rows: How many these are then.
    """

    dim: int
    window: Window
    step: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Plan:
    """A slice of a tensor that lies in some way: what each device takes of its shard, and what it fetches then."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    steps: tuple[int, ...]
    fetched: tuple[_Fetched, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The shape of what each device takes of its shard."""
        bounds = zip(self.starts, self.limits, self.steps, strict=True)
        return tuple(ceil_div(limit - start, step) for start, limit, step in bounds)


def _few(signature: Signature) -> tuple[int, ...]:
    """The dimensions of which devices contribute rows: a single one, or several neighbours, no more than a shard has.

    Over n devices that could have a part each of `taken` rows, n is no more than `taken`, and a shard no less than
    `taken` rows where their square is no more than all rows. To send parts of a shard to all takes as many bytes, then,
    as to reduce and scatter contributions; and to more devices no parts could be sent. Only those in the middle two
    devices have in parts already.
    """
    sizes = zip(signature.operands[0].dims, signature.results[0].dims, strict=True)
    bounds = zip(sizes, signature.get("start_indices", ()), signature.get("strides", ()), strict=True)
    return tuple(
        dim
        for dim, ((rows, taken), start, step) in enumerate(bounds)
        if 0 < taken < rows and (taken == 1 or (step == 1 and taken**2 <= rows and (start + taken // 2) * 2 != rows))
    )


def _in_parts(signature: Signature, rule: ShardingRule) -> ShardingRule:
    return with_contributions(signature, rule, _few(signature))


@memoize
def _plan(signature: Signature, sharding: TensorSharding) -> _Plan:
    starts, limits, steps = (list(signature.get(name, ())) for name in ("start_indices", "limit_indices", "strides"))
    shard = local_type(signature.operands[0], sharding).dims
    fetched: list[_Fetched] = []
    for dim, axes in enumerate(sharding.axes):
        count, taken = axes_size(axes), signature.results[0].dims[dim]
        if count == 1:
            continue
        if dim in _few(signature):
            starts[dim], limits[dim], steps[dim] = 0, shard[dim], 1
            continue
        if not taken:
            starts[dim] = limits[dim] = 0
            continue
        (start, step), rows = (starts[dim], steps[dim]), taken // count
        limits[dim] = shard[dim]
        if shard[dim] % step:
            starts[dim], steps[dim] = 0, 1
            window = Window(count, shard[dim], start, rows * step, (rows - 1) * step + 1)
        else:
            starts[dim], step = start % step, 1
            window = Window(count, shard[dim] // steps[dim], start // steps[dim], rows, rows)
        if not window.own:
            fetched.append(_Fetched(dim, window, step, rows))
    fetched.sort(key=lambda one: one.window.size / one.window.rows)  # what shrinks is less to send along others
    return _Plan(tuple(starts), tuple(limits), tuple(steps), tuple(fetched))


def _changed(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return rule.permutation


@exchanges("stablehlo.slice", factors=_changed)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    made: list[Exchange] = []
    plan = _plan(signature, operands[0])
    type = signature.operands[0].with_shape(plan.kept)
    for one in plan.fetched:
        made += sends([type], operands[0], one.dim, (one.window,))
        type = resized(type, one.dim, one.rows)
    return tuple(made)


@localizer("stablehlo.slice", in_parts=_in_parts)
def _slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    crossed = tuple(dim for dim in _few(signature) if is_split(source[0].axes[dim]))
    require_whole("the rows that a slice takes", crossed, target[0])
    require_alike("a slice", set(range(source[0].rank)).difference(crossed), source[0], target[0])
    require_partial("a slice", tuple(axis for dim in crossed for axis in source[0].axes[dim]), "sum", target[0])
    plan = _plan(signature, source[0])
    local = signature.replace(
        operands=(ctx.type(operands[0]),),
        results=(ctx.type(operands[0]).with_shape(plan.kept),),
        start_indices=i64_array(plan.starts),
        limit_indices=i64_array(plan.limits),
        strides=i64_array(plan.steps),
    )
    value = operands[0]
    if not plan.fetched or plan.kept != ctx.type(value).dims:
        (value,) = ctx.append(local, operands)
    for one in plan.fetched:
        value = fetch(ctx, [value], source[0], one.dim, (one.window,))
        value = cut(ctx, value, one.dim, 0, one.rows, one.step)
    if not crossed:
        return (value,)
    rows, dtype = signature.get("start_indices"), index_dtype(signature.operands[0])
    starts = [ctx.constant(rows[dim] if dim in crossed else 0, TensorType((), dtype)) for dim in range(source[0].rank)]
    return (contribution(ctx, signature, value, starts, source[0], crossed),)
