"""Concatenations along a dimension that is split: devices fetch their part of the whole from those of what is joined.

    a and b of 8 rows in 4 shards, one behind the other: device 0 needs shards 0 and 1 of a, device 2 those of b

No device is asked by two at a time: while even ones send a shard of `a`, odd ones send one of `b`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, localizer, rebuild
from shardwright.partition.localize.shifts import fetch, sends
from shardwright.partition.localize.windows import Window
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@memoize
def _windows(signature: Signature, sharding: TensorSharding) -> tuple[dict[int, Window], int]:
    """The windows of the operands that have any rows, by their numbers, and the dimension."""
    dim = signature.get("dimension")
    count = axes_size(sharding.axes[dim])
    size = signature.results[0].dims[dim] // count
    windows: dict[int, Window] = {}
    offset = 0
    for number, type in enumerate(signature.operands):
        rows = type.dims[dim]
        if rows:
            windows[number] = Window(count, rows // count, -offset, size, size)
        offset += rows
    return windows, dim


def _joined(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return frozenset(rule.results[0][signature.get("dimension")])


@exchanges("stablehlo.concatenate", factors=_joined)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    windows, dim = _windows(signature, operands[0])
    if not is_split(operands[0].axes[dim]) or not windows:
        return ()
    types = [local_type(signature.operands[number], operands[number]) for number in windows]
    return sends(types, operands[0], dim, tuple(windows.values()))


@localizer("stablehlo.concatenate")
def _concatenate(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    require_alike("a concatenation", range(target[0].rank), target[0], *source)
    windows, dim = _windows(signature, source[0])
    if not is_split(source[0].axes[dim]) or not windows:
        return rebuild(ctx, signature, operands, source, target)
    return (fetch(ctx, [operands[number] for number in windows], source[0], dim, tuple(windows.values())),)
