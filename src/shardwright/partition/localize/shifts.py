"""Windows of a split dimension, fetched from the devices that have their rows.

    sends(types, sharding, dim, windows)          what is exchanged, for `exchanges`
    fetch(ctx, values, sharding, dim, windows)    the window of one device, for the localizer

Both follow from the same `windows`: rows that others have come by collective permutes of exactly these, and rows that
are outside of the dimension are what the caller fills them with. Several tensors may fill one window, each what it has:
those that a concatenation joins, or one tensor twice, before and behind its own end, where it is rolled.

A device without a sender gets zeros, of XLA. These are never taken for rows: what a device gets is chosen by its index.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import axes_size
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.types import TensorType
from shardwright.partition.localize.exchanges import Exchange
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.moves import local_step
from shardwright.partition.localize.places import Places
from shardwright.partition.localize.transfers import Tile, Transfer, collectives, opposites, tiles, transfers
from shardwright.partition.localize.windows import Window
from shardwright.sharding import TensorSharding
from shardwright.steps import Send

__all__ = ["cut", "edged", "fetch", "part", "resized", "sends"]


def sends(
    types: Sequence[TensorType], sharding: TensorSharding, dim: int, windows: tuple[Window, ...]
) -> tuple[Exchange, ...]:
    """What devices exchange so that each has its windows of dimension `dim`.

    Arguments:
        types: The shards of the tensors that fill them, as one device has them.
        sharding: How the tensors lie.
        dim: The dimension.
        windows: Where windows lie in each of the tensors.
    """
    axes, made = wide(sharding.axes[dim]), list[Exchange]()
    for group, is_opposite in zip(collectives(windows), opposites(windows), strict=True):
        type = _whole(resized(types[group[0].source], dim, group[0].rows), sharding)
        routes = tuple(transfer.route for transfer in group)
        made.append(Exchange(type, sharding, Send(axes, routes, is_opposite)))
    return tuple(made)


def _whole(type: TensorType, sharding: TensorSharding) -> TensorType:
    """The type of all shards of a type together."""
    dims = zip(type.dims, sharding.axes, strict=True)
    return type.with_shape(tuple(size * axes_size(axes) for size, axes in dims))


def resized(type: TensorType, dim: int, size: int) -> TensorType:
    """A type with another size of dimension `dim`."""
    return type.with_shape((*type.dims[:dim], size, *type.dims[dim + 1 :]))


def cut(ctx: Local, value: int, dim: int, start: int, rows: int, step: int = 1) -> int:
    """Rows of a value along `dim`, every `step`th from `start` on; the value itself where these are all."""
    return value if rows == ctx.type(value).dims[dim] else part(ctx, value, dim, start, rows, step)


def part(
    builder: Builder,
    value: int,
    dim: int,
    start: int,
    rows: int,
    step: int = 1,
    layout: TensorSharding | None = None,
) -> int:
    """A slice of a value: so many rows along `dim`, every `step`th from `start` on."""
    type = builder.type(value)
    limits = [start + (rows - 1) * step + 1 if number == dim else size for number, size in enumerate(type.dims)]
    attributes = {
        "start_indices": i64_array([start if number == dim else 0 for number in range(type.rank)]),
        "limit_indices": i64_array(limits),
        "strides": i64_array([step if number == dim else 1 for number in range(type.rank)]),
    }
    return builder.emit("slice", (value,), resized(type, dim, rows), attributes, sharding=layout)


def edged(ctx: Local, value: int, dim: int, low: int, high: int) -> int:
    """A value with zeros in front of a dimension and behind it; less than none cut rows off."""
    if not low and not high:
        return value
    type = ctx.type(value)
    edges = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": 0}
    attributes = {
        name: i64_array([edge if number == dim else 0 for number in range(type.rank)]) for name, edge in edges.items()
    }
    padded = resized(type, dim, type.dims[dim] + low + high)
    return ctx.emit("pad", (value, ctx.constant(0, type.with_shape(()))), padded, attributes)


def fetch(
    ctx: Local,
    values: Sequence[int],
    sharding: TensorSharding,
    dim: int,
    windows: tuple[Window, ...],
    fill: int | None = None,
) -> int:
    """This device's window of dimension `dim`.

    Arguments:
        ctx: Where to write.
        values: The shards of the tensors that fill it.
        sharding: How the tensors lie.
        dim: The dimension.
        windows: Where windows lie in each of the tensors, all of one size.
        fill: A scalar of their element type, for rows that are outside all of them; 0 where it is `None`.
    """
    fetcher = _Fetcher(ctx, values, sharding, dim, windows, fill)
    parts = fetcher.parts()
    tiled = tiles(windows)
    if tiled is not None and all(len({parts[one] for one in tile.transfers}) < 2 for tile in tiled):
        return fetcher.joined(tiled, parts)
    return fetcher.placed(parts)


class _Fetcher:
    """One window, and the numbers that it takes to tell where its rows begin."""

    def __init__(
        self,
        ctx: Local,
        values: Sequence[int],
        sharding: TensorSharding,
        dim: int,
        windows: tuple[Window, ...],
        fill: int | None,
    ) -> None:
        self.ctx, self.values, self.sharding = ctx, values, sharding
        self.dim, self.windows, self.fill = dim, windows, fill
        self.shards, self.size = windows[0].shards, windows[0].size
        self.places = Places(ctx, wide(sharding.axes[dim]), sharding.mesh, windows)

    # --- what comes

    def parts(self) -> dict[Transfer, int]:
        """What this device has got of each transfer, or has already."""
        ctx, sharding = self.ctx, self.sharding
        parts = {one: self.piece(one) for one in transfers(self.windows) if one.local}
        exchanges = sends(list(map(ctx.type, self.values)), sharding, self.dim, self.windows)
        for group, exchange in zip(collectives(self.windows), exchanges, strict=True):
            parts |= dict.fromkeys(group, local_step(ctx, self.sent(group), exchange.step, sharding, sharding))
        return parts

    def sent(self, group: tuple[Transfer, ...]) -> int:
        """What this device sends in a collective, by which of its transfers it does."""
        pieces: dict[object, list[Transfer]] = {}
        for transfer in group:
            taken = transfer if transfer.start is None else (self.values[transfer.source], transfer.start)
            pieces.setdefault(taken, []).append(transfer)
        choices = list(pieces.values())
        if len(choices) == 1:
            return self.piece(group[0])
        values, rows = [self.piece(alike[0]) for alike in choices], group[0].rows
        joined = self.joint(values)
        start = self.places.number(0)
        for number, alike in enumerate(choices[1:], 1):
            sends = self.places.any([self.places.is_sender(transfer.route) for transfer in alike])
            start = self.ctx.select(sends, self.places.number(number * rows), start)
        return self.rows(joined, start, rows)

    def piece(self, transfer: Transfer) -> int:
        """The rows of this device's shard that a transfer takes."""
        ctx, value, window = self.ctx, self.values[transfer.source], self.windows[transfer.source]
        if transfer.start is not None:
            return cut(ctx, value, self.dim, transfer.start, transfer.rows)
        receiver = self.places.line(transfer.route.receiver, self.places.index)
        begin = self.places.begin(window, receiver, self.places.index)
        return self.rows(value, self.places.start(begin, transfer.rows, window), transfer.rows)

    # --- how windows are made of it

    def joined(self, tiled: tuple[Tile, ...], parts: dict[Transfer, int]) -> int:
        """Tiles one behind the other, each with one part at most."""
        return self.joint([self.tile(tile, parts) for tile in tiled])

    def joint(self, values: list[int]) -> int:
        """Values one behind the other along the dimension."""
        if len(values) == 1:
            return values[0]
        types = list(map(self.ctx.type, values))
        type = resized(types[0], self.dim, sum(one.dims[self.dim] for one in types))
        return self.ctx.emit("concatenate", values, type, {"dimension": f"{self.dim} : i64"})

    def tile(self, tile: Tile, parts: dict[Transfer, int]) -> int:
        """What fills a tile on this device."""
        ranges = [(transfer.route.first, transfer.route.last) for transfer in tile.transfers]
        covered = sum(last - first + 1 for first, last in ranges)
        if not covered:
            return self.filled(tile.rows)
        part = parts[tile.transfers[0]]
        if covered == self.shards:
            return part
        return self.ctx.select(self.places.within(ranges), part, self.filled(tile.rows))

    def placed(self, parts: dict[Transfer, int]) -> int:
        """Every part put where its rows belong, or beside the window if this device does not receive it.

        All rows of a part are rows of the tensor, those included that lie beside the window.
        """
        puts: list[tuple[int, list[Transfer]]] = []
        for transfer, part in parts.items():
            # operands may be one value: what a device has in two places of its window is put twice
            free = [alike for held, alike in puts if held == part and not any(map(transfer.meets, alike))]
            if free:
                free[0].append(transfer)
            else:
                puts.append((part, [transfer]))
        margin = max(transfer.rows for transfer in parts)
        value = self.filled(margin + self.size + margin)
        for part, alike in puts:
            place = self.places.number(self.size)
            for transfer in alike:
                received = self.places.is_receiver(transfer.route)
                here = self.place(transfer)
                place = self.ctx.select(self.places.all(received), here, place) if received else here
            value = self.put(value, part, place, margin)
        return cut(self.ctx, value, self.dim, margin, self.size)

    def place(self, transfer: Transfer) -> int:
        """At which row of the window the rows of a transfer begin, where this device receives it."""
        if transfer.place is not None:
            return self.places.number(transfer.place)
        window, places = self.windows[transfer.source], self.places
        begin = places.begin(window, places.index, places.line(transfer.route.sender, places.index))
        return places.binary("subtract", places.start(begin, transfer.rows, window), begin)

    def put(self, value: int, part: int, place: int, margin: int) -> int:
        """A window between margins with a part from row `place` of the window on."""
        ctx, places = self.ctx, self.places
        start = places.clamped(places.binary("add", place, places.number(margin)), self.size + margin)
        type = ctx.type(value)
        starts = [start if number == self.dim else places.number(0) for number in range(type.rank)]
        return ctx.emit("dynamic_update_slice", (value, part, *starts), type)

    def rows(self, value: int, start: int, rows: int) -> int:
        """So many rows of a value, from a row on that devices compute."""
        type = resized(self.ctx.type(value), self.dim, rows)
        zero = self.places.number(0)
        starts = [start if number == self.dim else zero for number in range(type.rank)]
        return self.ctx.dynamic_slice(value, starts, type.dims)

    def filled(self, rows: int) -> int:
        """So many rows that nothing has."""
        type = resized(self.ctx.type(self.values[0]), self.dim, rows)
        return self.ctx.constant(0, type) if self.fill is None else self.ctx.broadcast(self.fill, type.dims)
