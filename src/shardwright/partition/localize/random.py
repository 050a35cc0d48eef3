"""Every device draws the random numbers of the whole tensor and keeps its part: all agree with one device."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.signature import Signature
from shardwright.partition.localize.checks import require_whole
from shardwright.partition.localize.collectives import local_all_slice
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, localizer

__all__: list[str] = []


@localizer("stablehlo.rng_bit_generator")
def _rng_bit_generator(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    require_whole("a random bit generator's state", range(source[0].rank), source[0], target[0])
    state, bits = ctx.append(signature, operands)
    return state, local_all_slice(ctx, bits, target[1].axes, target[1].mesh)


@localizer("stablehlo.rng")
def _rng(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    (whole,) = ctx.append(signature, operands)
    return (local_all_slice(ctx, whole, target[0].axes, target[0].mesh),)
