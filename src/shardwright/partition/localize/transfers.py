"""By which collectives devices get the rows of their windows that they have not.

Where the pace is a multiple of a shard, windows begin at the same row of a shard on every device. Such ones of two
shards of 4 rows that begin one row early, `Window(shards=8, rows=4, base=-1, pace=4, size=8)`:

    row 3 of shard s − 1           is row 0 of the window
    rows 0 to 3 of shard s         are rows 1 to 4, where they are already
    rows 0 to 2 of shard s + 1     are rows 5 to 7

Any other pace gives each device another part of another shard: see `turns`. Devices compute from their index which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.memo import memoize
from shardwright.partition.localize.turns import sent_by_turns
from shardwright.partition.localize.windows import Window
from shardwright.routes import Line, Route, ceil_div

__all__ = ["Tile", "Transfer", "collectives", "opposites", "tiles", "transfers"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Rows of a shard that come into the windows of others.

    Attributes:
        source: Of which window, where there are several.
        rows: How many.
        route: From which device to which.
        start: At which row of the shard they begin; `None` where devices compute that.
        place: At which row of the window; `None` where devices compute that.
    """

    source: int
    rows: int
    route: Route
    start: int | None = None
    place: int | None = None

    @property
    def local(self) -> bool:
        """Whether nothing is sent."""
        return self.route.stays

    def meets(self, other: Transfer) -> bool:
        """Whether some device may receive both, as far as can be told."""
        return not _disjoint((self.route.first, self.route.last), (other.route.first, other.route.last))


@memoize
def transfers(windows: tuple[Window, ...]) -> tuple[Transfer, ...]:
    """All that comes into windows, of each source what devices have already included."""
    return tuple(
        transfer
        for source, window in enumerate(windows)
        for transfer in (_even(source, window) if window.even else _uneven(source, window))
        if transfer.route.first <= transfer.route.last
    )


def _even(source: int, window: Window) -> Iterator[Transfer]:
    """A transfer for each shard that windows touch."""
    rows, (shard, begin) = window.rows, divmod(window.base, window.rows)
    for number in range(ceil_div(begin + window.size, rows)):
        start = max(begin - number * rows, 0)
        end = min(begin + window.size - number * rows, rows)
        route = Route.along(window.pace // rows, shard + number, window.shards)
        yield Transfer(source, end - start, route, start, number * rows + start - begin)


def _uneven(source: int, window: Window) -> Iterator[Transfer]:
    """What devices have, all of it, and what others send."""
    yield Transfer(source, window.rows, Route.along(1, 0, window.shards), 0)
    for rows, route in sent_by_turns(window):
        yield Transfer(source, rows, route, 0 if rows == window.rows else None)


@memoize
def collectives(windows: tuple[Window, ...]) -> tuple[tuple[Transfer, ...], ...]:
    """The transfers that one collective each does: those of as many rows, from and to other devices."""
    made: list[list[Transfer]] = []
    for transfer in _staggered(windows):
        alike = sorted(made, key=lambda group: group[0].place != transfer.place)
        group = next((group for group in alike if all(_apart(transfer, other) for other in group)), None)
        if group is None:
            made.append([transfer])
        else:
            group.append(transfer)
    return tuple(map(tuple, made))


@memoize
def opposites(windows: tuple[Window, ...]) -> tuple[bool, ...]:
    """Of each of the `collectives` whether an earlier one, which has no other such, goes the other way."""
    alone, told = {True: 0, False: 0}, list[bool]()
    for group in collectives(windows):
        ways = {transfer.route.goes_up for transfer in group}
        way = ways.pop() if len(ways) == 1 else None
        is_opposite = way is not None and alone[not way] > 0
        told.append(is_opposite)
        if way is not None:
            alone[not way if is_opposite else way] += -1 if is_opposite else 1
    return tuple(told)


def _staggered(windows: tuple[Window, ...]) -> Iterator[Transfer]:
    """What is sent, the transfers of each source begun with a later one, so that different devices send."""
    sent = [transfer for transfer in transfers(windows) if not transfer.local]
    for source in range(len(windows)):
        own = [transfer for transfer in sent if transfer.source == source]
        ahead = source % max(1, len(own))
        yield from (*own[ahead:], *own[:ahead])


def _apart(one: Transfer, other: Transfer) -> bool:
    """Whether two transfers of as many rows are from and to different devices, as far as can be told."""
    first, second = one.route, other.route
    return (
        one.rows == other.rows
        and not one.meets(other)
        and (_disjoint(_senders(first), _senders(second)) or _alternate(first.sender, second.sender))
    )


def _senders(route: Route) -> Sequence[int]:
    return sorted((route.sender.at(route.first), route.sender.at(route.last)))


def _disjoint(one: Sequence[int], other: Sequence[int]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _alternate(one: Line, other: Line) -> bool:
    """Whether lines as steep take turns."""
    as_steep = one.slope == other.slope and one.divisor == other.divisor == 1
    return as_steep and (one.offset - other.offset) % one.slope != 0


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows of a window that are filled alike: on each device by one of the transfers, or by none.

    Attributes:
        rows: How many.
        transfers: What fills them, each on other devices.
    """

    rows: int
    transfers: tuple[Transfer, ...]


@memoize
def tiles(windows: tuple[Window, ...]) -> tuple[Tile, ...] | None:
    """The tiles of which windows are made, in order; `None` where they are not the same on every device."""
    made: list[Tile] = []
    end = 0
    by_place: dict[int, list[Transfer]] = {}
    for transfer in transfers(windows):
        if transfer.place is None:
            return None
        by_place.setdefault(transfer.place, []).append(transfer)
    for place, alike in sorted(by_place.items()):
        if place < end or len({transfer.rows for transfer in alike}) > 1:
            return None
        made += [Tile(place - end, ())] if place > end else []
        made.append(Tile(alike[0].rows, tuple(alike)))
        end = place + alike[0].rows
    rest = windows[0].size - end
    return (*made, Tile(rest, ())) if rest else tuple(made)
