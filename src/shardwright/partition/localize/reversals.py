"""Reversals of dimensions that are split: one permute of shards, each of which is reversed where it comes to.

Along several dimensions at once it is one, too: counted through the axes of all of them, the last shard is the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_alike
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.moves import local_step
from shardwright.partition.localize.registry import Shardings, localizer, rebuild
from shardwright.routes import Route
from shardwright.rules.rule import ShardingRule
from shardwright.steps import Send

__all__: list[str] = []


def _reversed(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return rule.permutation


@exchanges("stablehlo.reverse", factors=_reversed)
@memoize
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    (layout,) = operands
    axes = wide([axis for dim in signature.get("dimensions", ()) for axis in layout.axes[dim]])
    shards = axes_size(axes)
    if shards == 1:
        return ()
    return (Exchange(signature.operands[0], layout, Send(axes, (Route.along(-1, shards - 1, shards),))),)


@localizer("stablehlo.reverse")
def _reverse(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    require_alike("a reversal", range(target[0].rank), target[0], *source)
    value = operands[0]
    for exchange in _exchanges(signature, source):
        value = local_step(ctx, value, exchange.step, source[0], source[0])
    return rebuild(ctx, signature, (value,), source, target)
