"""Rounds in which devices get the rows of windows that do not begin at the same row of a shard everywhere.

Each gets another part of another shard. In a round every device sends to one at most, and receives from one; the rows
sent are as many as any device needs then, and where they begin in the shard, and in the window, devices compute from
their index. There are two ways to deal pairs of a device and a shard to rounds, of which the one is taken that sends
less:

- By number. Where the pace is longer than a shard, the number of a shard in its window: no two windows have the same
  shard in that place. Where it is shorter, the number of a window in its shard. There are as few rounds as can be.
- By the distance of the two. There are as many rounds as shards are wide apart, which grows with their number; where
  that is small, less is sent for devices that are out of step.

Source: XLA's `HaloExchange` sends by distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shardwright.partition.localize.windows import Window
from shardwright.routes import Line, Route, ceil_div, greatest_residue, least_residue

__all__ = ["sent_by_turns"]

_Sent = tuple[int, Route]
"""How many rows are sent, and along which route."""


def sent_by_turns(window: Window) -> tuple[_Sent, ...]:
    """What is sent in each round so that every device has its window, where the pace is no multiple of a shard."""
    numbered = tuple(_by_number(window))
    distant = _by_distance(window, 2 * len(numbered))
    ways = (numbered, distant) if distant else (numbered,)
    return min(ways, key=lambda sent: (sum(rows for rows, _ in sent), len(sent)))


# --- by number


def _by_number(window: Window) -> Iterator[_Sent]:
    for turn in _turns(window):
        moving = list(_moving(turn))
        needed = max((_most(window, turn, first, last) for first, last in moving), default=0)
        if needed > 0:
            yield needed, turn.route(moving[0][0], moving[-1][1])


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


def _inside(window: Window) -> tuple[int, int]:
    """Between which rows of a shard a window begins that has most in common with it: earlier ones have but their end
    in it, later ones but their beginning.
    """
    return min(0, window.rows - window.size), max(0, window.rows - window.size)


def _common(window: Window, begin: int) -> int:
    """How many rows of a shard are in a window that begins at row `begin` of it; less than none if they are apart."""
    return min(window.rows, begin + window.size) - max(0, begin)


# --- by distance


def _by_distance(window: Window, most: int) -> tuple[_Sent, ...]:
    """What is sent over each distance; nothing where there are more than `most`."""
    ends = [(device, window.base + window.pace * device) for device in (0, window.shards - 1)]
    nearest = min(device - (begin + window.size - 1) // window.rows for device, begin in ends)
    farthest = max(device - begin // window.rows for device, begin in ends)
    distances = range(max(nearest, 1 - window.shards), min(farthest, window.shards - 1) + 1)
    if len(distances) > most + 1:
        return ()
    return tuple(sent for distance in distances if distance for sent in _over(window, distance))


def _over(window: Window, distance: int) -> Iterator[_Sent]:
    """What goes to each device from the one that is so far before it."""
    begin, drift = window.base + distance * window.rows, window.pace - window.rows
    bounds = (-window.size, window.rows) if drift > 0 else (-window.rows, window.size)
    line = (begin, drift) if drift > 0 else (-begin, -drift)
    first = max((bounds[0] - line[0]) // line[1] + 1, distance, 0)
    last = min(ceil_div(bounds[1] - line[0], line[1]) - 1, window.shards - 1 + min(distance, 0))
    if first > last:
        return
    crossings = ((place - begin) // drift + more for place in _inside(window) for more in (0, 1))
    devices = (first, last, *(min(max(device, first), last) for device in crossings))
    needed = max(_common(window, begin + drift * device) for device in devices)
    yield needed, Route(Line(1, -distance), Line(1, distance), first, last)
