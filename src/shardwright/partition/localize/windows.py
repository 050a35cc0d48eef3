"""Which rows of a dimension every device needs, and by which collectives it gets those that it has not.

A dimension is split into shards of as many rows. Device `s` needs a window of it: the rows from `base + pace * s` on,
`size` of them, some of which may lie outside. Everything here is data that does not grow with the number of devices.

Where the pace is a multiple of a shard, windows begin at the same row of a shard on every device. Such ones of two
shards of 4 rows that begin one row early, `Window(shards=8, rows=4, base=-1, pace=4, size=8)`:

    row 3 of shard s − 1           is row 0 of the window
    rows 0 to 3 of shard s         are rows 1 to 4, where they are already
    rows 0 to 2 of shard s + 1     are rows 5 to 7

Any other pace gives each device another part of another shard. Where the pace is longer than a shard, the number `j` of
a shard in its window tells who sends in round `j`: no two windows have the same shard there. Where it is shorter, the
number of a window in its shard does. The rows sent are as many as any device needs in that round, and where they begin
in the shard, and in the window, devices compute from their index.

Source: XLA's `HaloExchange`, which sends by the distance of shards instead: as many rounds as shards are wide apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardwright.memo import memoize
from shardwright.routes import Line, Route, ceil_div, greatest_residue, least_residue

__all__ = ["Tile", "Transfer", "Window", "collectives", "tiles", "transfers"]


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a split dimension that each device needs.

    Attributes:
        shards: Into how many shards the dimension is split.
        rows: Of a shard.
        base: The first row that device 0 needs; it may lie outside.
        pace: How far the window of a device is from the one before. Where it is negative, a multiple of `rows`.
        size: Rows of a window, at least one.
    """

    shards: int
    rows: int
    base: int
    pace: int
    size: int

    @property
    def even(self) -> bool:
        """Whether windows begin at the same row of a shard on every device."""
        return self.pace % self.rows == 0

    @property
    def own(self) -> bool:
        """Whether every device needs its shard, and no more."""
        return self.base == 0 and self.pace == self.size == self.rows


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
    """What devices have, all of it, and what others send in each round."""
    yield Transfer(source, window.rows, Route.along(1, 0, window.shards), 0)
    for turn in _turns(window):
        moving = list(_moving(turn))
        needed = max((_most(window, turn, first, last) for first, last in moving), default=0)
        if needed > 0:
            route = turn.route(moving[0][0], moving[-1][1])
            yield Transfer(source, needed, route, 0 if needed == window.rows else None)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Pairs of devices that send and receive, found from those of which each has a partner of its own.

    Attributes:
        sender: From the index of who receives.
        receiver: From the index of who sends.
        spread: Whether it is found from who receives: windows are farther apart than shards.
        first: The first index that has a partner, ...
        last: ... and the last.
        ahead: Where windows would begin in their shard, but for the rest that rounding down leaves.
    """

    sender: Line
    receiver: Line
    spread: bool
    first: int
    last: int
    ahead: int

    @property
    def partner(self) -> Line:
        """From an index to its partner's."""
        return self.sender if self.spread else self.receiver

    def route(self, first: int, last: int) -> Route:
        """The pairs of indices from `first` to `last`."""
        ends = (first, last) if self.spread else (self.receiver.at(first), self.receiver.at(last))
        return Route(self.sender, self.receiver, *ends)


def _turns(window: Window) -> Iterator[_Turn]:
    """The rounds, one after the other, while some device still needs something of a shard in them."""
    shards, rows, base, pace, size = window.shards, window.rows, window.base, window.pace, window.size
    if pace > rows:
        for number in range(ceil_div(rows + size - 1, rows)):
            sender = Line(pace, base + number * rows, rows)
            receiver = Line(rows, pace - 1 - base - number * rows, pace)
            first, last = max(receiver.at(0), 0), min(receiver.at(shards), shards) - 1
            yield _Turn(sender, receiver, True, first, last, -number * rows)
        return
    for number in range(ceil_div(rows + size - 1, pace)):
        reach = (number + 1) * pace - size
        receiver = Line(rows, reach - base, pace)
        sender = Line(pace, rows - 1 + base - reach, rows)
        first, last = max(sender.at(0), 0), min(sender.at(shards), shards) - 1
        if receiver.at(0) >= shards:
            return
        yield _Turn(sender, receiver, False, first, last, reach)


def _moving(turn: _Turn) -> Iterator[tuple[int, int]]:
    """The first and last index, of up to two stretches, that are not their own partners."""
    line = turn.partner
    steeper = line.slope - line.divisor
    own = ceil_div(-line.offset, steeper)
    behind = ceil_div(line.divisor - line.offset, steeper)
    for first, last in ((turn.first, min(turn.last, own - 1)), (max(turn.first, behind), turn.last)):
        if first <= last:
            yield first, last


def _most(window: Window, turn: _Turn, first: int, last: int) -> int:
    """The most rows that a device needs of a shard, of the partners of indices from `first` to `last`."""
    line, count = turn.partner, last - first + 1
    terms = (line.slope, line.slope * first + line.offset, line.divisor, count)
    rests = (least_residue(*terms), greatest_residue(*terms))
    begins = sorted(turn.ahead + rest if turn.spread else turn.ahead - rest for rest in rests)
    # A window that begins early has but its end in the shard, one that begins late but its beginning.
    inside = sorted((0, window.rows - window.size))
    begin = min(max(begins[0], inside[0]), begins[1]) if begins[0] <= inside[1] else begins[0]
    return min(window.rows, begin + window.size) - max(0, begin)


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
        and _disjoint((first.first, first.last), (second.first, second.last))
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
