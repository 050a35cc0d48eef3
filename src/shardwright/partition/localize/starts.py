"""Places that are known only when a program runs, where a slice begins or an update goes, as StableHLO clamps them.

Of a place that is a constant of an unsigned type XLA on CPUs reads the bits as if it were signed: 255 of `ui8` is row
-1 there, which it clamps to 0. Clamped by an op of its own it is what StableHLO says.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.builder import Builder
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.localize.local import identity_value

__all__ = ["clamped", "has_unsigned_starts", "with_clamped_starts"]

_FIRST = {"stablehlo.dynamic_slice": 1, "stablehlo.dynamic_update_slice": 2}
"""The first operand that says where rows are taken, or put: one for each dimension follows."""


def has_unsigned_starts(signature: Signature) -> bool:
    """Whether an op is a slice or an update at a place of an unsigned type."""
    first = _FIRST.get(signature.name)
    return first is not None and any(type.dtype.startswith("ui") for type in signature.operands[first:])


def with_clamped_starts(ctx: Builder, signature: Signature, operands: Sequence[int]) -> tuple[int, ...]:
    """Append a slice or an update at a place that is clamped by ops of its own."""
    first = _FIRST[signature.name]
    taken = signature.operands[1] if first == 2 else signature.results[0]
    limits = [whole - part for whole, part in zip(signature.operands[0].dims, taken.dims, strict=True)]
    starts = [clamped(ctx, start, limit) for start, limit in zip(operands[first:], limits, strict=True)]
    return ctx.append(signature, (*operands[:first], *starts))


def clamped(ctx: Builder, start: int, limit: int) -> int:
    """A start no less than 0 and no more than `limit`."""
    type: TensorType = ctx.type(start)
    zero = ctx.constant(0, type)
    if not limit:
        return zero
    largest = ctx.constant(min(limit, int(identity_value("min", type.dtype))), type)
    return ctx.emit("clamp", (zero, start, largest), type)
