"""Rows of a split dimension as contributions to a sum: each device has some of those that an op takes, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.starts import clamped
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["contribution", "index_dtype", "with_contributions"]


def with_contributions(signature: Signature, rule: ShardingRule, dims: Collection[int]) -> ShardingRule:
    """The rule of an op that takes a part of its operand, of which devices contribute what they have along some dims.

    A factor of such a dimension is one of the operand alone, and is summed; the result's dimension is whole. Where
    elements have no size there are no sums of them, and the rule stays as it is.
    """
    if not dims or not bit_width(signature.results[0].dtype):
        return rule
    count = len(rule.sizes)
    of_result = {dim: count + number for number, dim in enumerate(dims)}
    summed = frozenset(factor for dim in dims for factor in rule.operands[0][dim])
    mapping = tuple((of_result[dim],) if dim in dims else factors for dim, factors in enumerate(rule.results[0]))
    return replace(
        rule,
        sizes=(*rule.sizes, *(signature.results[0].dims[dim] for dim in dims)),
        results=(mapping,),
        reduction=rule.reduction | summed,
        permutation=rule.permutation - summed,
        need_replication=rule.need_replication - summed | frozenset(of_result.values()),
    )


def contribution(
    ctx: Local,
    signature: Signature,
    shard: int,
    starts: Sequence[int],
    sharding: TensorSharding,
    crossed: Sequence[int],
) -> int:
    """What this device has of the rows from `starts` on, and zeros for what it has not.

    With L rows of a shard, from `offset` on, and `size` rows that are taken from `start` on, it takes W = min(size, L)
    rows at `place`, `start - offset` clamped to the shard, and pads them with `size` zeros on both sides:

        rows start … start + size of the whole are those from start - offset - place + size on, of 2 size + W

    Arguments:
        ctx: Where to write.
        signature: The op, of whose result dimensions some are split.
        shard: What the device has of the operand.
        starts: The first row of each dimension that is taken, scalars; of dimensions not `crossed` of the shard.
        sharding: How the operand lies.
        crossed: The dimensions along which contributions are summed, whole in the result.
    """
    rows = ctx.type(shard).dims
    result = local_type(signature.results[0], _along(sharding, crossed)).dims
    reach = tuple(map(min, result, rows))
    margin = [result[dim] if dim in crossed else 0 for dim in range(len(rows))]
    places, rests = list(starts), [ctx.constant(0, ctx.type(start)) for start in starts]
    for dim in crossed:
        dtype = ctx.type(starts[dim]).dtype
        offset = ctx.offset(sharding.axes[dim], rows[dim], sharding.mesh, dtype)
        ahead = ctx.binary("subtract", starts[dim], offset)
        places[dim] = clamped(ctx, ahead, rows[dim] - reach[dim])
        rest = ctx.binary("subtract", ahead, places[dim])
        rest = ctx.binary("add", rest, ctx.constant(margin[dim], ctx.type(rest)))
        rests[dim] = clamped(ctx, rest, reach[dim] + margin[dim])
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


def index_dtype(type: TensorType) -> str:
    """An integer type that holds the number of any row of a tensor, and of as many again."""
    return "i64" if max(type.dims) >= 1 << 30 else "i32"


def _along(sharding: TensorSharding, whole: Sequence[int]) -> TensorSharding:
    """A sharding with some dimensions whole."""
    return sharding.with_axes(tuple(() if dim in whole else axes for dim, axes in enumerate(sharding.axes)))
