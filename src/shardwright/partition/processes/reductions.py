"""Collectives that combine the values of a group.

Operands are converted to the element type of the result first, and combined in that type.
"""

from __future__ import annotations

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.ir.types import TensorType
from shardwright.partition.localize.collectives import local_all_reduce, local_reduce_scatter
from shardwright.partition.processes.call import Call
from shardwright.partition.processes.registry import process

__all__: list[str] = []

_KINDS = {
    "sum": "sum",
    "max": "max",
    "min": "min",
    "product": "product",
    "average": "sum",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}


@process("shard.all_reduce", "shard.reduce")
def all_reduce(call: Call) -> list[int]:
    """The combined values; a reduce gives them to more than its root."""
    if call.signature.name == "shard.reduce":
        call.member("root")
    kind = _kind(call)
    value = call.ctx.convert(call.value, call.result.dtype)
    return [_averaged(call, local_all_reduce(call.ctx, value, call.group, kind, call.mesh))]


@process("shard.reduce_scatter")
def reduce_scatter(call: Call) -> list[int]:
    """This member's part of the combined values."""
    kind, dim = _kind(call), call.dimension("scatter_dim", "scatter_axis")
    value = call.ctx.convert(call.value, call.result.dtype)
    return [_averaged(call, local_reduce_scatter(call.ctx, value, call.group, dim, kind, call.mesh))]


def _kind(call: Call) -> str:
    """How StableHLO's collectives call the reduction."""
    kind, dtype = call.signature.get("reduction", "sum"), call.result.dtype
    if kind not in _KINDS:
        raise ShardingError(
            f"devices cannot combine values by {kind!r}",
            cause="the op does not say what it computes" if kind == "generic" else "",
            remedy=f"one of {', '.join(_KINDS)}",
        )
    if not _fits(str(kind), dtype):
        raise ShardingError(f"elements of type {dtype} cannot be combined by {kind!r}", remedy="convert them first")
    return _KINDS[kind]


def _fits(kind: str, dtype: str) -> bool:
    if kind.startswith("bitwise"):
        return dtype.startswith(("i", "ui"))
    if dtype.startswith("complex"):
        return kind not in ("max", "min")
    return dtype != "i1" or kind != "average"


def _averaged(call: Call, value: int) -> int:
    count, type = axes_size(call.group), call.ctx.type(value)
    if call.signature.get("reduction") != "average" or count == 1:
        return value
    _check_count(count, type)
    return call.ctx.binary("divide", value, call.ctx.constant(count, type))


def _check_count(count: int, type: TensorType) -> None:
    bits = type.dtype.lstrip("ui")
    if bits.isdigit() and count >= 1 << (int(bits) - (not type.dtype.startswith("ui"))):
        raise ShardingError(f"{type.dtype} has no {count} to divide by", remedy="reduce in a wider type")
