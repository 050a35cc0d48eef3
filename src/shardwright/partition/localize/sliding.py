"""What devices need of a dimension along which windows slide, where operand and result are split alike.

Device `s` computes `count` of the results, from `s * count` on. Their windows take rows of the padded dimension from
`s * count * stride` on; those of the padding are outside of the operand. So each device fetches one window of it, by
`shifts`, and its op has no padding left along that dimension:

    64 rows in 4 shards, windows of 3, stride 1, a row of padding on both sides: rows 16s − 1 to 16s + 16
    64 rows in 4 shards, windows of 2, stride 2: rows 16s to 16s + 15, those that it has

Where not the windows are shared out but what is within them, as of a kernel as large as the image, the same holds of
the elements of a window, each of which meets as many rows as there are windows (`Sliding.turned`).

Where the operand is dilated, devices fetch rows of the operand and leave the dilation to their op, with what of it
stands in front of the first row and behind the last. If their parts do not begin at the same place between two rows, it
is written first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shardwright.axes import axes_size
from shardwright.ir.attributes import i64_array
from shardwright.ir.types import TensorType
from shardwright.partition.localize.exchanges import Exchange
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.shifts import fetch, resized, sends
from shardwright.partition.localize.windows import Window
from shardwright.routes import ceil_div
from shardwright.rules.sliding import Sliding
from shardwright.sharding import TensorSharding

__all__ = ["Slid", "fetch_all", "sends_all", "slides"]


@dataclass(frozen=True, slots=True)
class Slid:
    """What each device needs of a dimension, and what is left to its op.

    Attributes:
        dim: The dimension of the operand.
        window: The rows that it needs.
        dilated: By how much it is dilated before they are fetched; `window` counts rows of that.
        base: By how much its op dilates what was fetched.
        low: What its op pads it with in front, ...
        high: ... and behind; less than 0 cuts off.
    """

    dim: int
    window: Window
    dilated: int
    base: int
    low: int
    high: int

    @property
    def is_there(self) -> bool:
        """Whether what each device needs is its shard, as it is."""
        return self.window.own and self.dilated == 1


def slides(operand: TensorType, sharding: TensorSharding, dims: Iterable[tuple[int, int, Sliding]]) -> tuple[Slid, ...]:
    """What devices need of the split ones of the dimensions along which windows slide, in the order of fetching.

    Arguments:
        operand: Global type of what they slide along.
        sharding: How it lies.
        dims: Dimensions, how many windows there are along each, and what these are.
    """
    made: list[Slid] = []
    for dim, count, windows in dims:
        shards = axes_size(sharding.axes[dim])
        if shards > 1 and operand.dims[dim] and count:
            made.append(_slid(dim, windows, shards, operand.dims[dim] // shards, count // shards))
    return tuple(sorted(made, key=lambda one: one.window.size / one.window.rows))  # what shrinks is less to send along


def _slid(dim: int, windows: Sliding, shards: int, rows: int, count: int) -> Slid:
    """Of a dimension of which each device has so many rows and computes so many results."""
    base, pace = windows.base, count * windows.stride
    needed = pace - windows.stride + windows.reach
    if pace % base:
        return Slid(dim, Window(shards, rows * base, -windows.low, pace, needed), base, 1, 0, 0)
    first = ceil_div(-windows.low, base)
    ahead = first * base + windows.low
    size = max(1, ceil_div(needed - ahead, base))
    behind = needed - ahead - (size - 1) * base - 1
    return Slid(dim, Window(shards, rows, first, pace // base, size), 1, base, ahead, behind)


def sends_all(shard: TensorType, sharding: TensorSharding, slid: Sequence[Slid]) -> tuple[Exchange, ...]:
    """What devices exchange to have what they need of an operand of which each has a shard of a type."""
    made: list[Exchange] = []
    for one in slid:
        if not one.window.own:
            made += sends([resized(shard, one.dim, one.window.rows)], sharding, one.dim, (one.window,))
        shard = resized(shard, one.dim, one.window.size)
    return tuple(made)


def fetch_all(ctx: Local, value: int, sharding: TensorSharding, slid: Sequence[Slid], fill: int | None = None) -> int:
    """What this device needs of an operand of which `value` is its shard, with `fill`, or 0, for what is outside."""
    for one in slid:
        if one.dilated > 1:
            value = _dilated(ctx, value, one, fill)
        if not one.window.own:
            value = fetch(ctx, [value], sharding, one.dim, (one.window,), fill)
    return value


def _dilated(ctx: Local, value: int, slid: Slid, fill: int | None) -> int:
    """A shard with `fill`, or 0, behind each row."""
    type = ctx.type(value)
    between = i64_array([slid.dilated - 1 if dim == slid.dim else 0 for dim in range(type.rank)])
    attributes = {
        "edge_padding_low": i64_array([0] * type.rank),
        "edge_padding_high": between,
        "interior_padding": between,
    }
    fill = ctx.constant(0, type.with_shape(())) if fill is None else fill
    return ctx.emit("pad", (value, fill), resized(type, slid.dim, slid.window.rows), attributes)
