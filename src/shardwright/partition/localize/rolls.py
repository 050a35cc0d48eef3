"""Rolls of a dimension that is split: rows that leave it at one end come in at the other.

No dialect has an op for it: programs join two slices of one tensor, of which neither divides by the shards where the
whole does. `partition.rolls` makes `shardwright.roll` of them, an op that stands in graphs only. Written, it is these
slices again, or the computation of one device here: what is rolled fills windows twice, from its beginning and, a whole
dimension farther on, from its end, and all rows go in one permute where they are of one shard.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.ir.attributes import integer
from shardwright.ir.builder import Builder
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, localizer
from shardwright.partition.localize.shifts import fetch, part, sends
from shardwright.partition.localize.windows import Window
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["ROLL", "roll", "written"]

ROLL = "shardwright.roll"
"""The op's name."""


def roll(type: TensorType, dim: int, start: int) -> Signature:
    """A roll of a tensor along `dim`: its rows from `start` on, and behind them those before."""
    return Signature(ROLL, (("dimension", integer(dim)), ("start", integer(start))), (type,), (type,))


def written(builder: Builder, signature: Signature, value: int, layout: TensorSharding | None = None) -> int:
    """A roll of a value whose dimension is whole as the slices that it is, of this layout."""
    dim, start = signature.get("dimension"), signature.get("start")
    type = builder.type(value)
    rows = type.dims[dim]
    slices = [part(builder, value, dim, start, rows - start, 1, layout), part(builder, value, dim, 0, start, 1, layout)]
    return builder.emit("concatenate", slices, type, {"dimension": integer(dim)}, sharding=layout)


@memoize
def _windows(signature: Signature, sharding: TensorSharding) -> tuple[Window, Window]:
    dim, start = signature.get("dimension"), signature.get("start")
    size = signature.operands[0].dims[dim]
    count = axes_size(sharding.axes[dim])
    rows = size // count
    return Window(count, rows, start, rows, rows), Window(count, rows, start - size, rows, rows)


def _rolled(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return rule.permutation


@exchanges(ROLL, factors=_rolled)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    (layout,), dim = operands, signature.get("dimension")
    if not is_split(layout.axes[dim]):
        return ()
    type = local_type(signature.operands[0], layout)
    return sends([type, type], layout, dim, _windows(signature, layout))


@localizer(ROLL)
def _roll(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    require_alike("a roll", range(source[0].rank), source[0], target[0])
    dim, (value,) = signature.get("dimension"), operands
    if not is_split(source[0].axes[dim]):
        return (written(ctx, signature, value),)
    return (fetch(ctx, [value, value], source[0], dim, _windows(signature, source[0])),)
