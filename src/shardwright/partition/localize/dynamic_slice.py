"""dynamic_slice of a tensor of which each device holds a part.

A dimension that is taken whole stays as it is. Of one that is cut at a place known only when the program runs each
device takes the rows that it holds, and puts zeros for the others: contributions to a sum. With L rows of a shard, from
`offset` on, and `size` rows that are taken from `start` on, it takes W = min(size, L) rows at `place`,
`start - offset` clamped to the shard, and pads them with `size` zeros on both sides:

    rows start … start + size of the whole are those from start - offset - place + size on, of 2 size + W

So one row of a stack that is split along its rows is one row to be sent, and not the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.checks import is_split, require_alike, require_partial, require_whole
from shardwright.partition.localize.indices import signed
from shardwright.partition.localize.local import Local, identity_value, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


def _cut_dims(signature: Signature) -> tuple[int, ...]:
    """The dimensions of which a part is taken."""
    sizes = zip(signature.operands[0].dims, signature.results[0].dims, strict=True)
    return tuple(dim for dim, (whole, part) in enumerate(sizes) if whole != part)


def _summed(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """Of a dimension that is cut shards give contributions: its factor is one of the operand alone, and is summed."""
    cut, count = _cut_dims(signature), len(rule.sizes)
    if not cut or not bit_width(signature.results[0].dtype):
        return rule
    of_result = {dim: count + number for number, dim in enumerate(cut)}
    summed = frozenset(factor for dim in cut for factor in rule.operands[0][dim])
    mapping = tuple((of_result[dim],) if dim in cut else factors for dim, factors in enumerate(rule.results[0]))
    return replace(
        rule,
        sizes=(*rule.sizes, *(signature.results[0].dims[dim] for dim in cut)),
        results=(mapping,),
        reduction=rule.reduction | summed,
        need_replication=rule.need_replication - summed | frozenset(of_result.values()),
    )


@localizer("stablehlo.dynamic_slice", in_parts=_summed)
def _dynamic_slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """A split dimension is taken whole, its start, whatever it says, clamped to 0 here as there, or is summed.

    Starts are clamped by ops of their own: where another slice follows, XLA makes one of both, and forgets to.
    """
    cut = _cut_dims(signature)
    kept = set(range(source[0].rank)).difference(cut)
    require_alike("a dynamic slice", kept, source[0], target[0])
    require_whole("what a dynamic slice takes", cut, target[0])
    crossed = tuple(dim for dim in cut if is_split(source[0].axes[dim]))
    require_partial("a dynamic slice", tuple(a for dim in crossed for a in source[0].axes[dim]), "sum", target[0])
    sizes = signature.results[0].dims
    limits = [whole - size for whole, size in zip(signature.operands[0].dims, sizes, strict=True)]
    if crossed:
        starts = [_start(ctx, signature, *pair) for pair in zip(operands[1:], limits, strict=True)]
        return (_contribution(ctx, signature, operands[0], starts, source[0], crossed),)
    starts = [_clamped(ctx, start, limit) for start, limit in zip(operands[1:], limits, strict=True)]
    local = local_signature(signature, source, target)
    return ctx.append(local.replace(slice_sizes=i64_array(local.results[0].dims)), (operands[0], *starts))


def _contribution(
    ctx: Local,
    signature: Signature,
    shard: int,
    starts: Sequence[int],
    sharding: TensorSharding,
    crossed: Sequence[int],
) -> int:
    """What this device has of the rows from `starts` on, and zeros for what it has not."""
    rows = ctx.type(shard).dims
    result = local_type(signature.results[0], _along(sharding, crossed)).dims
    reach = tuple(map(min, result, rows))
    margin = [result[dim] if dim in crossed else 0 for dim in range(len(rows))]
    places, rests = list(starts), [ctx.constant(0, ctx.type(start)) for start in starts]
    for dim in crossed:
        dtype = ctx.type(starts[dim]).dtype
        offset = ctx.offset(sharding.axes[dim], rows[dim], sharding.mesh, dtype)
        ahead = ctx.binary("subtract", starts[dim], offset)
        places[dim] = _clamped(ctx, ahead, rows[dim] - reach[dim])
        rest = ctx.binary("subtract", ahead, places[dim])
        rest = ctx.binary("add", rest, ctx.constant(margin[dim], ctx.type(rest)))
        rests[dim] = _clamped(ctx, rest, reach[dim] + margin[dim])
    piece = ctx.dynamic_slice(shard, places, reach)
    type = ctx.type(piece)
    attributes = {
        "edge_padding_low": i64_array(margin),
        "edge_padding_high": i64_array(margin),
        "interior_padding": i64_array([0] * len(rows)),
    }
    padded = type.with_shape(tuple(size + 2 * edge for size, edge in zip(reach, margin, strict=True)))
    wide = ctx.emit("pad", (piece, ctx.constant(0, type.with_shape(()))), padded, attributes)
    return ctx.dynamic_slice(wide, rests, result)


def _along(sharding: TensorSharding, whole: Sequence[int]) -> TensorSharding:
    """A sharding with some dimensions whole."""
    return sharding.with_axes(tuple(() if dim in whole else axes for dim, axes in enumerate(sharding.axes)))


def _start(ctx: Local, signature: Signature, value: int, limit: int) -> int:
    """A start as StableHLO clamps it, of a type that holds the number of any row."""
    dtype = "i64" if max(signature.operands[0].dims) >= 1 << 30 else "i32"
    return ctx.convert(_clamped(ctx, signed(ctx, value, (limit,), 1), limit), dtype)


def _clamped(ctx: Local, start: int, limit: int) -> int:
    type: TensorType = ctx.type(start)
    zero = ctx.constant(0, type)
    if not limit:
        return zero
    largest = ctx.constant(min(limit, int(identity_value("min", type.dtype))), type)
    return ctx.emit("clamp", (zero, start, largest), type)
