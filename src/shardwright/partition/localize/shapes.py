"""Ops whose attributes speak of sizes: these become the sizes of shards, where that is the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_alike, require_whole
from shardwright.partition.localize.layout import same_elements, wide
from shardwright.partition.localize.local import Local, identity_value, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer, rebuild
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@localizer("stablehlo.reshape", "stablehlo.dynamic_reshape")
def _reshape(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Right where operand and result split the same elements apart."""
    if not same_elements(signature.operands[0].dims, source[0], signature.results[0].dims, target[0]):
        raise ShardingError(
            f"a reshape {signature.operands[0]} → {signature.results[0]} cannot turn {source[0]!r} into {target[0]!r}",
            remedy="reshard the operand before the op",
        )
    return (ctx.reshape(operands[0], local_type(signature.results[0], target[0]).dims),)


@localizer("stablehlo.broadcast", "stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def _broadcast_in_dim(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """`broadcast`, which puts new dimensions first, is written as the `broadcast_in_dim` that it is."""
    return ctx.append(_local_broadcast(signature, source[0], target[0]), operands[:1])


@memoize
def _local_broadcast(signature: Signature, source: TensorSharding, target: TensorSharding) -> Signature:
    """A broadcast of one device's shard."""
    operand, result = signature.operands[0], signature.results[0]
    dims = signature.get("broadcast_dimensions", tuple(range(result.rank - operand.rank, result.rank)))
    for dim, out in enumerate(dims):
        stretched = operand.dims[dim] != result.dims[out]
        expected = () if stretched else target.axes[out]
        if wide(source.axes[dim]) != wide(expected):
            raise ShardingError(f"a broadcast along {list(dims)} cannot turn {source!r} into {target!r}")
    attributes = (("broadcast_dimensions", i64_array(dims)),)
    types = local_type(operand, source), local_type(result, target)
    return Signature("stablehlo.broadcast_in_dim", attributes, types[:1], types[1:])


@localizer(
    "stablehlo.dynamic_iota",
    "stablehlo.dynamic_pad",
    "stablehlo.real_dynamic_slice",
    "stablehlo.dynamic_gather",
    "stablehlo.dynamic_conv",
)
def _dynamic(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Operands hold the sizes: those of the whole."""
    for sharding in (*source, *target):
        require_whole(signature.name, range(sharding.rank), sharding)
    return rebuild(ctx, signature, operands, source, target)


@localizer("stablehlo.dynamic_slice")
def _dynamic_slice(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """A split dimension is taken whole: its start, whatever it says, is clamped to 0 here as there.

    Starts are clamped by ops of their own: where another slice follows, XLA makes one of both, and forgets to.
    """
    require_alike("a dynamic slice", range(source[0].rank), source[0], target[0])
    sizes = signature.results[0].dims
    cut = [dim for dim, size in enumerate(signature.operands[0].dims) if size != sizes[dim]]
    require_whole("a dynamic slice of a part", cut, source[0])
    local = local_signature(signature, source, target)
    limits = [whole - size for whole, size in zip(signature.operands[0].dims, sizes, strict=True)]
    starts = [_clamped(ctx, start, limit) for start, limit in zip(operands[1:], limits, strict=True)]
    return ctx.append(local.replace(slice_sizes=i64_array(local.results[0].dims)), (operands[0], *starts))


def _clamped(ctx: Local, start: int, limit: int) -> int:
    type = ctx.type(start)
    zero = ctx.constant(0, type)
    if not limit:
        return zero
    largest = ctx.constant(min(limit, int(identity_value("min", type.dtype))), type)
    return ctx.emit("clamp", (zero, start, largest), type)


@localizer("stablehlo.sort")
def _sort(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    dim = signature.get("dimension", -1)
    rank = source[0].rank
    require_whole("a sort", [dim % rank] if rank else [], *source, *target)
    require_alike("a sort", range(rank), source[0], *source, *target)
    return rebuild(ctx, signature, operands, source, target)


@localizer("chlo.top_k")
def _top_k(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    last = source[0].rank - 1
    require_whole("a top-k", [last], source[0], *target)
    require_alike("a top-k", range(last), source[0], *target)
    return rebuild(ctx, signature, operands, source, target)


@localizer("stablehlo.fft")
def _fft(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    rank, taken = source[0].rank, len(signature.get("fft_length", ()))
    require_whole("an FFT", range(rank - taken, rank), source[0], target[0])
    require_alike("an FFT", range(rank - taken), source[0], target[0])
    return rebuild(ctx, signature, operands, source, target)


@localizer("stablehlo.cholesky")
def _cholesky(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    rank = source[0].rank
    require_whole("a Cholesky decomposition", range(rank - 2, rank), source[0], target[0])
    require_alike("a Cholesky decomposition", range(rank - 2), source[0], target[0])
    return rebuild(ctx, signature, operands, source, target)
