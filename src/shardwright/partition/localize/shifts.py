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
from shardwright.partition.localize.transfers import Tile, Transfer, collectives, tiles, transfers
from shardwright.partition.localize.windows import Window
from shardwright.sharding import TensorSharding
from shardwright.steps import Send

__all__ = ["cut", "fetch", "part", "resized", "sends"]


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
    axes = wide(sharding.axes[dim])
    return tuple(
        Exchange(_whole(resized(types[group[0].source], dim, group[0].rows), sharding), sharding, Send(axes, routes))
        for group in collectives(windows)
        for routes in [tuple(transfer.route for transfer in group)]
    )


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
    return fetcher.joined(tiled, parts) if tiled is not None else fetcher.placed(parts)


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
            rows = transfer if transfer.start is None else (self.values[transfer.source], transfer.start)
            pieces.setdefault(rows, []).append(transfer)
        first, *others = pieces.values()
        value = self.piece(first[0])
        for alike in others:
            sends = self.places.any([self.places.is_sender(transfer.route) for transfer in alike])
            value = self.ctx.select(sends, self.piece(alike[0]), value)
        return value

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
        """Tiles one behind the other."""
        made = [self.tile(tile, parts) for tile in tiled]
        if len(made) == 1:
            return made[0]
        type = resized(self.ctx.type(made[0]), self.dim, self.size)
        return self.ctx.emit("concatenate", made, type, {"dimension": f"{self.dim} : i64"})

    def tile(self, tile: Tile, parts: dict[Transfer, int]) -> int:
        """What fills a tile on this device."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        for transfer in tile.transfers:
            ranges.setdefault(parts[transfer], []).append((transfer.route.first, transfer.route.last))
        covered = sum(last - first + 1 for alike in ranges.values() for first, last in alike)
        value = self.filled(tile.rows) if covered < self.shards else None
        for part, alike in ranges.items():
            value = part if value is None else self.ctx.select(self.places.within(alike), part, value)
        assert value is not None
        return value

    def placed(self, parts: dict[Transfer, int]) -> int:
        """Every part put over what fills the window, at the rows that are its own."""
        value = self.filled(self.size)
        for transfer, part in parts.items():
            window, places = self.windows[transfer.source], self.places
            begin = places.begin(window, places.index, places.line(transfer.route.sender, places.index))
            lead = places.binary("subtract", places.start(begin, transfer.rows, window), begin)
            value = self.put(value, part, lead, places.is_receiver(transfer.route))
        return value

    def put(self, value: int, part: int, lead: int, conditions: list[int]) -> int:
        """A window with the rows of `part` from row `lead` on, wherever that is, if the conditions hold."""
        ctx, size = self.ctx, self.size
        type = ctx.type(part)
        rows = type.dims[self.dim]
        edges = i64_array([size if number == self.dim else 0 for number in range(type.rank)])
        none = i64_array([0] * type.rank)
        attributes = {"edge_padding_low": edges, "edge_padding_high": edges, "interior_padding": none}
        zero = ctx.constant(0, type.with_shape(()))
        padded = ctx.emit("pad", (part, zero), resized(type, self.dim, rows + 2 * size), attributes)
        moved = self.rows(padded, self.places.binary("subtract", self.places.number(size), lead), size)
        taken = self.places.covered(lead, rows, size, conditions)
        return ctx.select(ctx.broadcast(taken, ctx.type(moved).dims, (self.dim,)), moved, value)

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
