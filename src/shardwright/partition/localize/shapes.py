"""Ops whose attributes speak of sizes: these become the sizes of shards, where that is the same thing."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_alike, require_whole
from shardwright.partition.localize.layout import same_elements, wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_form, localizer, rebuild
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@local_form("stablehlo.reshape")
def _local_reshape(signature: Signature, source: Shardings, target: Shardings) -> Signature | None:
    """Right where operand and result split the same elements apart."""
    if not same_elements(signature.operands[0].dims, source[0], signature.results[0].dims, target[0]):
        raise ShardingError(
            f"a reshape {signature.operands[0]} → {signature.results[0]} cannot turn {source[0]!r} into {target[0]!r}",
            remedy="reshard the operand before the op",
        )
    before, after = local_type(signature.operands[0], source[0]), local_type(signature.results[0], target[0])
    return None if before == after else Signature("stablehlo.reshape", (), (before,), (after,))


@localizer("stablehlo.reshape", "stablehlo.dynamic_reshape")
def _reshape(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Nothing, where shards have one shape before and after."""
    form = _local_reshape(signature, source[:1], target)
    return tuple(operands[:1]) if form is None else ctx.append(form, operands[:1])


@local_form("stablehlo.broadcast", "stablehlo.broadcast_in_dim")
def _broadcast_in_dim(signature: Signature, source: Shardings, target: Shardings) -> Signature:
    """`broadcast`, which puts new dimensions first, is written as the `broadcast_in_dim` that it is."""
    return _local_broadcast(signature, source[0], target[0])


@localizer("stablehlo.dynamic_broadcast_in_dim")
def _dynamic_broadcast_in_dim(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
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
    (result,) = rebuild(ctx, signature, [_in_line(ctx, operands[0])], source, target)
    return (_in_line(ctx, result),)


def _in_line(ctx: Local, value: int) -> int:
    """The same tensor, its elements in line.

    XLA's FFT on CPUs refuses an operand to which XLA itself has given another layout, as for an all_gather of any
    dimension but the first before it or behind it.
    """
    dims = ctx.type(value).dims
    flat = ctx.reshape(value, (ctx.type(value).elements,))
    barrier = Signature("stablehlo.optimization_barrier", (), (ctx.type(flat),), (ctx.type(flat),))
    return ctx.reshape(ctx.append(barrier, (flat,))[0], dims)


@localizer("stablehlo.cholesky")
def _cholesky(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    rank = source[0].rank
    require_whole("a Cholesky decomposition", range(rank - 2, rank), source[0], target[0])
    require_alike("a Cholesky decomposition", range(rank - 2), source[0], target[0])
    return rebuild(ctx, signature, operands, source, target)
