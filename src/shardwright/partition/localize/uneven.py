"""Where uneven tensors stand in an explicit program: its arguments and results, and the ops next to them.

A program that is given a tensor of 7 rows split over 4 devices pads it to 8; one that returns such a tensor cuts it to
7. The shards of both tensors are of one size, 2 rows, and stay where they are:

    %0 = stablehlo.pad %arg0, …      tensor<7x3xf32> [{"x"}, {}] → tensor<8x3xf32> [{"x"}, {}]
    %2 = stablehlo.slice %1 [0:7, …  tensor<8x3xf32> [{"x"}, {}] → tensor<7x3xf32> [{"x"}, {}]

Nothing else has uneven tensors, since no other op knows where they end. The last shards of an argument may hold
anything behind its end, and hold the padding value after the pad; those of a result may hold anything there. A pad
whose value nothing reads says so (`OPEN`), and leaves there what is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.extents import filled_shape
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local
from shardwright.sharding import TensorSharding

__all__ = ["OPEN", "enters", "is_at_boundary", "leaves", "local_entering", "shard_type"]

Layout = TensorSharding | None

OPEN = "shardwright.open"
"""The attribute, a unit, of a pad of which nothing reads what it pads with."""


def shard_type(type: TensorType, sharding: TensorSharding) -> TensorType:
    """The type of the largest shard of a tensor: of one that is uneven the last shards are filled up to it."""
    return type.with_shape(sharding.local_shape(type.dims)) if type.is_tensor else type


def enters(signature: Signature, operands: Sequence[Layout], results: Sequence[Layout]) -> bool:
    """Whether an op pads an uneven tensor to one of the same shards."""
    if signature.name != "stablehlo.pad":
        return False
    (type, _), (before, *_), (after,) = signature.operands, operands, results
    if before is None or after is None or before.rank != type.rank or before.divides(type.dims):
        return False
    low, interior = (signature.get(name, ()) for name in ("edge_padding_low", "interior_padding"))
    return not any(low) and not any(interior) and _fills(type, before, signature.results[0], after)


def leaves(signature: Signature, operands: Sequence[Layout], results: Sequence[Layout]) -> bool:
    """Whether an op cuts off what an uneven tensor is filled up with, every shard staying as it is."""
    if signature.name != "stablehlo.slice":
        return False
    (type,), (before,), (after,) = signature.results, operands, results
    if before is None or after is None or after.rank != type.rank or after.divides(type.dims):
        return False
    starts, strides = (signature.get(name, ()) for name in ("start_indices", "strides"))
    if any(starts) or any(stride != 1 for stride in strides):
        return False
    return _fills(type, after, signature.operands[0], before)


def is_at_boundary(signature: Signature, operands: Sequence[Layout], results: Sequence[Layout]) -> bool:
    """Whether an op stands between an uneven argument or result and the program, and leaves all shards as they are."""
    return enters(signature, operands, results) or leaves(signature, operands, results)


@memoize
def _fills(type: TensorType, sharding: TensorSharding, wider: TensorType, layout: TensorSharding) -> bool:
    """Whether an uneven tensor has the shards of an even one."""
    if sharding.partial or sharding.offsets or sharding.halos or layout.rank != sharding.rank:
        return False
    same = [wide(one) == wide(other) for one, other in zip(sharding.axes, layout.axes, strict=True)]
    least = filled_shape(sharding, type.dims)
    return all(same) and sharding.mesh == layout.mesh and not layout.partial and wider.dims == least


def local_entering(ctx: Local, signature: Signature, operands: Sequence[int], sharding: TensorSharding) -> int:
    """A shard of an uneven tensor, the padding value behind the end of the tensor where something reads it."""
    value, filling = operands
    if signature.text(OPEN):
        return value
    shard, whole = ctx.type(value).dims, signature.operands[0].dims
    for dim, axes in enumerate(sharding.axes):
        if whole[dim] % axes_size(axes) == 0:
            continue
        dtype = "i64" if signature.results[0].dims[dim] >= 1 << 31 else "i32"
        place = ctx.iota(TensorType((shard[dim],), dtype), 0)
        start = ctx.broadcast(ctx.offset(axes, shard[dim], sharding.mesh, dtype), (shard[dim],))
        size = ctx.constant(whole[dim], TensorType((shard[dim],), dtype))
        inside = ctx.compare(ctx.binary("add", place, start), size, "LT")
        value = ctx.select(ctx.broadcast(inside, shard, (dim,)), value, ctx.broadcast(filling, shard))
    return value
