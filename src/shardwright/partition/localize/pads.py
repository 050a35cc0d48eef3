"""Pads of dimensions that are split: rows move as far as what is put in front of them, or cut off, is wide.

Padding between elements goes with them, and is written last; where that does not make whole elements of each device's
part, it is written first, and all rows are shifted.

    x of 8 rows in 4 shards, one row in front, one cut off at the end: device s needs rows 2s − 1 and 2s
    two rows between any two, and two behind the last: nothing moves
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardwright.axes import axes_size
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_alike
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, localizer
from shardwright.partition.localize.shifts import fetch, resized, sends
from shardwright.partition.localize.windows import Window
from shardwright.routes import ceil_div
from shardwright.rules.rule import ShardingRule, factors_in
from shardwright.sharding import TensorSharding

__all__: list[str] = []

_NAMES = ("edge_padding_low", "edge_padding_high", "interior_padding")

_Padding = tuple[int, int, int]
"""In front, behind, and between any two elements."""

_NONE: _Padding = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A pad of a tensor that lies in some way: how each device pads its shard, what it fetches, how it pads that.

    Attributes:
        before: For each dimension the padding of shards.
        fetched: Dimensions and their windows, of what these are then.
        after: For each dimension the padding of what was fetched.
    """

    before: tuple[_Padding, ...]
    fetched: tuple[tuple[int, Window], ...]
    after: tuple[_Padding, ...]


@memoize
def _plan(signature: Signature, sharding: TensorSharding) -> _Plan:
    after: list[_Padding] = list(zip(*(signature.get(name, ()) for name in _NAMES), strict=True))
    before = [_NONE] * len(after)
    fetched: list[tuple[int, Window]] = []
    shard = local_type(signature.operands[0], sharding).dims
    for dim, axes in enumerate(sharding.axes):
        count, (low, _, interior) = axes_size(axes), after[dim]
        rows, size, step = shard[dim], signature.results[0].dims[dim] // count, interior + 1
        if count == 1 or after[dim] == _NONE:
            continue
        if not size or not rows:
            after[dim] = (size - rows, 0, 0)
            continue
        if size % step:
            before[dim], after[dim] = (0, interior, interior), _NONE
            window = Window(count, rows * step, -low, size, size)
        else:
            base = ceil_div(-low, step)
            ahead = base * step + low
            after[dim] = (ahead, interior - ahead, interior)
            window = Window(count, rows, base, size // step, size // step)
        if not window.own:
            fetched.append((dim, window))
    return _Plan(tuple(before), tuple(fetched), tuple(after))


def _padded(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors of padded dimensions; some keep their size, and shift all the same."""
    padding = zip(*(signature.get(name, ()) for name in _NAMES), strict=True)
    return factors_in(tuple(dim for dim, pads in zip(rule.operands[0], padding, strict=True) if any(pads)))


@exchanges("stablehlo.pad", factors=_padded)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    made: list[Exchange] = []
    plan = _plan(signature, operands[0])
    shard = local_type(signature.operands[0], operands[0])
    type = shard.with_shape(_shape(shard.dims, plan.before))
    for dim, window in plan.fetched:
        made += sends([type], operands[0], dim, (window,))
        type = resized(type, dim, window.size)
    return tuple(made)


def _shape(shape: tuple[int, ...], padding: tuple[_Padding, ...]) -> tuple[int, ...]:
    pairs = zip(shape, padding, strict=True)
    return tuple(max(0, low + size + high + max(0, size - 1) * interior) for size, (low, high, interior) in pairs)


@localizer("stablehlo.pad")
def _pad(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    require_alike("a pad", range(source[0].rank), source[0], target[0])
    plan = _plan(signature, source[0])
    value, fill = operands
    if any(padding != _NONE for padding in plan.before):
        value = _written(ctx, signature, value, fill, plan.before)
    for dim, window in plan.fetched:
        value = fetch(ctx, [value], source[0], dim, (window,), fill)
    if not plan.fetched or any(padding != _NONE for padding in plan.after):
        value = _written(ctx, signature, value, fill, plan.after)
    return (value,)


def _written(ctx: Local, signature: Signature, value: int, fill: int, padding: tuple[_Padding, ...]) -> int:
    type = ctx.type(value)
    result = type.with_shape(_shape(type.dims, padding))
    columns = {name: i64_array([one[column] for one in padding]) for column, name in enumerate(_NAMES)}
    local = signature.replace(operands=(type, ctx.type(fill)), results=(result,), **columns)
    return ctx.append(local, (value, fill))[0]
