"""A permute in parts, on one device's values: several collective_permutes, each of a part of what devices hold.

On mesh (x=4, y=2), `[x],[y]` becomes `[y],[x]` so: the device at (x, y) has the rows of a quarter and the columns of a
half, and wants a half and a quarter. It cuts its columns in two, for two devices, and puts together its rows from two.

    dimension   has     wants                            cut into       joined from
    rows        x       y        2 of a quarter a half                  2, numbered by x mod 2 of the sender
    columns     y       x        2 of a quarter a half   2, numbered by x mod 2 of the receiver

In turn `t` a device whose shard is the `s`th of those that one is joined from sends its part `s + t`, and who is
waiting for his part `r` gets that of the shard `r − t`, all of them modulo their number. So in each turn all devices
send one part, and all get one.

Where a dimension goes from two shards to three, each is cut and each is joined, and which part goes when follows no
such line: it is dealt out once for as many devices as there are parts (`turns_between`), all others do as these, and a
device looks up the number of its part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwright.axes import Axes, axes_size
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.localize.collectives import paired
from shardwright.partition.localize.local import Local, positions
from shardwright.partition.localize.matchings import is_in_line, turns_between
from shardwright.sharding import TensorSharding

__all__ = ["local_permute_in_parts"]

_INDEX = TensorType((), "i32")


def local_permute_in_parts(ctx: Local, value: int, source: TensorSharding, target: TensorSharding) -> int:
    """What `target` wants here, of a value that lies as `source` says, sent part by part."""
    cut, joined = _ratios(source, target), _ratios(target, source)
    mesh, shape = source.mesh, ctx.type(value).dims
    part = tuple(size // count for size, count in zip(shape, cut, strict=True))
    result = ctx.type(value).with_shape(tuple(size * count for size, count in zip(part, joined, strict=True)))
    if not result.elements:
        return ctx.constant(0, result)
    sending, waiting = _number(ctx, source.axes, joined, mesh), _number(ctx, target.axes, cut, mesh)
    in_line, schedule = is_in_line(cut, joined), turns_between(cut, joined)
    whole = ctx.reshape(value, result.dims)  # of as many elements, all of which are written
    dtype = "i64" if max(shape + result.dims) >= 1 << 31 else "i32"
    for turn, (parts, places) in enumerate(schedule):
        of_part = _turned(ctx, sending, turn, len(schedule)) if in_line else ctx.looked_up(parts, sending)
        sent = ctx.dynamic_slice(value, _starts(ctx, of_part, cut, part, dtype), part)
        text = _pairs_text(source, target, turn, ctx.mesh)
        attributes = {"source_target_pairs": text, "channel_handle": ctx.channel()}
        received = ctx.emit("collective_permute", (sent,), ctx.type(sent), attributes)
        of_place = _turned(ctx, waiting, -turn, len(schedule)) if in_line else ctx.looked_up(places, waiting)
        place = _starts(ctx, of_place, joined, part, dtype)
        whole = ctx.emit("dynamic_update_slice", (whole, received, *place), result)
    return whole


def _ratios(few: TensorSharding, many: TensorSharding) -> tuple[int, ...]:
    """Into how many parts, each for a shard of `many`, one of `few` is cut in each dimension; 1 where it is not."""
    counts = ((axes_size(old), axes_size(new)) for old, new in zip(few.axes, many.axes, strict=True))
    return tuple(new // math.gcd(old, new) for old, new in counts)


def _number(ctx: Local, axes: Sequence[Axes], counts: tuple[int, ...], mesh: Mesh) -> int:
    """Which this device's shard is among those that lie in one of a layout of `counts` fewer."""
    number: int | None = None
    for of_dim, count in zip(axes, counts, strict=True):
        if count == 1:
            continue
        size = ctx.constant(count, _INDEX)
        digit = ctx.binary("remainder", ctx.axis_index(of_dim, mesh), size)
        number = digit if number is None else ctx.binary("add", ctx.binary("multiply", number, size), digit)
    assert number is not None, "there are several parts"
    return number


def _turned(ctx: Local, number: int, turn: int, turns: int) -> int:
    if turn % turns == 0:
        return number
    ahead = ctx.binary("add", number, ctx.constant(turn % turns, _INDEX))
    return ctx.binary("remainder", ahead, ctx.constant(turns, _INDEX))


def _starts(ctx: Local, number: int, counts: tuple[int, ...], part: tuple[int, ...], dtype: str) -> list[int]:
    """Where the part of a number begins in each dimension, of those that are cut into `counts`."""
    first, *others = [dim for dim, count in enumerate(counts) if count > 1]
    starts = [ctx.constant(0, TensorType((), dtype))] * len(counts)
    for dim in reversed(others):
        size = ctx.constant(counts[dim], _INDEX)
        starts[dim] = _scaled(ctx, ctx.binary("remainder", number, size), part[dim], dtype)
        number = ctx.binary("divide", number, size)
    starts[first] = _scaled(ctx, number, part[first], dtype)
    return starts


def _scaled(ctx: Local, number: int, size: int, dtype: str) -> int:
    number = ctx.convert(number, dtype)
    return number if size == 1 else ctx.binary("multiply", number, ctx.constant(size, TensorType((), dtype)))


@memoize
def _pairs_text(source: TensorSharding, target: TensorSharding, turn: int, partitions: Mesh) -> str:
    """Who sends to whom in a turn, as the attribute of a collective_permute has it."""
    cut, joined = _ratios(source, target), _ratios(target, source)
    position = positions(source.mesh, partitions)
    held = [_index(axes, source.mesh, position) for axes in source.axes]
    needed = [_index(axes, target.mesh, position) for axes in target.axes]
    number = np.zeros_like(position)
    for index, count in zip(held, joined, strict=True):
        number = number * count + index % count
    number = np.array(turns_between(cut, joined)[turn].parts)[number]
    going: list[Any] = []
    for index, more, fewer in reversed(list(zip(held, cut, joined, strict=True))):
        part = index % fewer * more + number % more  # among those of as many shards as the two layouts have in common
        going.append(index // fewer * more + part // fewer)
        number = number // more
    staying = _index(source.partial_axes, source.mesh, position)
    counts = [axes_size(axes) for axes in target.axes]
    pairs = paired(_joined(staying, going[::-1], counts), _joined(staying, needed, counts))
    return f"dense<{pairs.tolist()}> : tensor<{len(pairs)}x2xi64>"


def _index(axes: Axes, mesh: Mesh, position: Any) -> Any:
    """Which shard along `axes` each partition holds."""
    index = np.zeros_like(position)
    for stride, size in map(mesh.digit, axes):
        index = index * size + position // stride % size
    return index


def _joined(number: Any, indices: Sequence[Any], counts: Sequence[int]) -> Any:
    """One number for several."""
    for index, count in zip(indices, counts, strict=True):
        number = number * count + index
    return number
