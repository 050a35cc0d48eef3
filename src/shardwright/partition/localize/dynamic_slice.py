"""dynamic_slice of a tensor of which each device holds a part.

A dimension that is taken whole stays as it is. Of one that is cut at a place known only when the program runs each
device takes the rows that it holds, and puts zeros for the others: contributions to a sum (see `contributions`). So
one row of a stack that is split along its rows is one row to be sent, and not the stack.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike, require_partial, require_whole
from shardwright.partition.localize.contributions import contribution, index_dtype, with_contributions
from shardwright.partition.localize.indices import signed
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.partition.localize.starts import clamped
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []


def _cut_dims(signature: Signature) -> tuple[int, ...]:
    """The dimensions of which a part is taken."""
    sizes = zip(signature.operands[0].dims, signature.results[0].dims, strict=True)
    return tuple(dim for dim, (whole, part) in enumerate(sizes) if whole != part)


def _summed(signature: Signature, rule: ShardingRule) -> ShardingRule:
    return with_contributions(signature, rule, _cut_dims(signature))


@localizer("stablehlo.dynamic_slice", in_parts=_summed)
def _dynamic_slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """A split dimension is taken whole, its start, whatever it says, clamped to 0 here as there, or is summed.

    Starts are clamped by ops of their own: where another slice follows, XLA makes one of both, and forgets to.
    """
    crossed, sizes = _crossed(signature, source, target), signature.results[0].dims
    limits = [whole - size for whole, size in zip(signature.operands[0].dims, sizes, strict=True)]
    if crossed:
        starts = [_start(ctx, signature, *pair) for pair in zip(operands[1:], limits, strict=True)]
        return (contribution(ctx, signature, operands[0], starts, source[0], crossed),)
    starts = [clamped(ctx, start, limit) for start, limit in zip(operands[1:], limits, strict=True)]
    return ctx.append(_local_slice(signature, source, target), (operands[0], *starts))


@memoize
def _crossed(signature: Signature, source: Shardings, target: Shardings) -> tuple[int, ...]:
    """The split dimensions of which a part is taken.

    Raises:
        ShardingError: operand and result do not lie as a slice leaves them.
    """
    cut = _cut_dims(signature)
    kept = set(range(source[0].rank)).difference(cut)
    require_alike("a dynamic slice", kept, source[0], target[0])
    require_whole("what a dynamic slice takes", cut, target[0])
    crossed = tuple(dim for dim in cut if is_split(source[0].axes[dim]))
    require_partial("a dynamic slice", tuple(a for dim in crossed for a in source[0].axes[dim]), "sum", target[0])
    return crossed


@memoize
def _local_slice(signature: Signature, source: Shardings, target: Shardings) -> Signature:
    """The slice of one device's shard."""
    local = local_signature(signature, source, target)
    return local.replace(slice_sizes=i64_array(local.results[0].dims))


def _start(ctx: Local, signature: Signature, value: int, limit: int) -> int:
    """A start as StableHLO clamps it, of a type that holds the number of any row."""
    return ctx.convert(clamped(ctx, signed(ctx, value, (limit,), 1), limit), index_dtype(signature.operands[0]))
