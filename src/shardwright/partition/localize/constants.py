"""Values that come from nowhere: each device makes its own part."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.errors import ShardingError
from shardwright.ir.builder import splat
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.localize.collectives import local_all_slice
from shardwright.partition.localize.local import Local, local_type, splat_value
from shardwright.partition.localize.registry import Shardings, local_form, localizer

__all__: list[str] = []

_INTEGERS = ("i32", "i64", "ui32", "ui64")


@local_form("stablehlo.constant", "sdy.constant")
def _splat(signature: Signature, source: Shardings, target: Shardings) -> Signature | None:
    """A splat at the local shape."""
    element = splat_value(signature.text("value") or "")
    return None if element is None else splat(element, local_type(signature.results[0], target[0]))


@localizer("stablehlo.constant", "sdy.constant")
def _constant(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Anything but a splat: whole, and sliced."""
    type = signature.results[0]
    local_type(type, target[0])  # refuses what does not divide
    whole = ctx.emit("constant", (), type, {"value": signature.text("value") or ""})
    return (local_all_slice(ctx, whole, target[0].axes, target[0].mesh),)


@localizer("stablehlo.iota")
def _iota(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Local positions plus where the shard starts, counted in integers: a `bf16` cannot count past 256 in steps."""
    dim: int = signature.get("iota_dimension")
    local = local_type(signature.results[0], target[0])
    if not target[0].axes[dim]:
        return (ctx.iota(local, dim),)
    wide = "i64" if signature.results[0].dims[dim] >= 1 << 31 else "i32"
    dtype = local.dtype if local.dtype in _INTEGERS else wide
    counted = ctx.iota(TensorType(local.dims, dtype), dim)
    start = ctx.offset(target[0].axes[dim], local.dims[dim], target[0].mesh, dtype)
    return (ctx.convert(ctx.binary("add", counted, ctx.broadcast(start, local.dims)), local.dtype),)


@localizer("stablehlo.partition_id", "stablehlo.replica_id")
def _identity(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    raise ShardingError(
        f"{signature.name} has no meaning in a program written as if for one device",
        remedy="use it inside a manual computation",
    )


@localizer("stablehlo.get_dimension_size")
def _get_dimension_size(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """The size of the whole dimension, which is known."""
    size = signature.operands[0].dims[signature.get("dimension")]
    return (ctx.constant(size, signature.results[0]),)
