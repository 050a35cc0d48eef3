"""Which of some explicit programs of one plan is the better one: the faster, unless it holds much more.

For less time a device may hold more beside arguments and results, by three times the share: a third more for a tenth
less. What a search for less time comes to of a GPT of 8 layers takes 4 % less and holds 2.1 times as much, which nobody
would want; and a recurrent network that takes a fortieth of the time may hold three times as much. Less than a
twentieth of arguments and results is nothing: a step of decoding has much of those, and hardly anything beside them.
One that fits into the memory of the hardware comes before one that does not.

Or, where memory and traffic are not to be traded for time (`--effort lean`), the fastest of those that send no more
than another one, and hold at most a tenth more beside arguments and results. What takes less than two thirds of the
time may send a tenth more too: nobody would wait twice as long to spare a twentieth of the bytes. What takes less than
a seventh of the time may hold three times as much: a scan over twelve layers whose weights are gathered in front of it
takes a thirtieth on GPUs, since op by op activations are summed in each turn, and holds twice as much.
"""

from __future__ import annotations

from typing import NamedTuple

from shardwright.analysis.temporaries import boundary_bytes, temporary_bytes
from shardwright.analysis.traffic import collectives, summarize
from shardwright.cost.hardware import current_hardware
from shardwright.ir.graph import Graph
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import block_seconds, is_less
from shardwright.partition.localize import localize
from shardwright.words import bytes_text

__all__ = ["Demand", "demand_of", "room_for_orders"]

_MORE = 1.1
"""How many times as much may be held where memory is not to be traded for time."""

_FAR_LESS, _SENT = 2 / 3, 1.1
"""What part of the time is so much less that a little more may be sent for it, and how many times as much."""

_SEVENTH, _THRICE = 1 / 7, 3.0
"""What part of the time is so little that much more may be held for it, and how many times as much."""

_NOTHING = 0.05
"""What part of arguments and results is nothing beside them."""

_WORTH = 0.99
"""What part of the time is less: prices leave out what compilers fuse, and much else of a hundredth."""


class Demand(NamedTuple):
    """What a program asks of each device.

    Attributes:
        seconds: What it takes, collectives beside what computes.
        beside: The most bytes that are alive at once, its arguments and results not counted.
        excess: Bytes that it holds beyond what the hardware has, where that is known.
        sent: Bytes that a device sends.
        boundary: Those of its arguments and results.
    """

    seconds: float
    beside: int
    excess: float
    sent: float
    boundary: int = 0

    def is_within(self, most: Demand) -> bool:
        """Whether a program sends no more than another, or hardly more where it takes much less time, and holds at most
        a tenth more, or what there is room for.

        >>> plain = Demand(1.0, 100, 0.0, 50.0)
        >>> Demand(0.9, 110, 0.0, 50.0).is_within(plain), Demand(0.9, 90, 0.0, 54.0).is_within(plain)
        (True, False)
        >>> Demand(0.5, 90, 0.0, 54.0).is_within(plain), Demand(0.5, 90, 0.0, 60.0).is_within(plain)
        (True, False)
        """
        sent = most.sent * (_SENT if self.seconds < _FAR_LESS * most.seconds else 1.0)
        return self.has_room(most) and not is_less(sent, self.sent)

    def takes_hardly_any_of(self, other: Demand) -> bool:
        """Whether a program takes less than a seventh of the time of another, sends no more, and holds for that at most
        three times as much, or what there is room for.

        >>> plain = Demand(1.0, 100, 0.0, 50.0)
        >>> [Demand(*one, 0.0, 50.0).takes_hardly_any_of(plain) for one in ((0.14, 290), (0.14, 310), (0.15, 290))]
        [True, False, False]
        """
        is_far_less = self.seconds < _SEVENTH * other.seconds and not is_less(other.sent, self.sent)
        return is_far_less and self._has_room(other, _THRICE)

    def has_room(self, most: Demand) -> bool:
        """Whether a program holds at most a tenth more than another, or what there is room for."""
        return self._has_room(most, _MORE)

    def _has_room(self, most: Demand, times: float) -> bool:
        return self.excess <= most.excess and self.beside <= times * most.beside

    def or_held_by(self, explicit: Graph) -> Demand:
        """The same, with what another explicit program holds beside arguments and results, if that is more."""
        return self._replace(beside=max(self.beside, temporary_bytes(localize(explicit))))

    def is_worth_it(self, other: Demand) -> bool:
        """Whether this is of a program that is to be taken before another one: it takes less time, by more than prices
        are wrong by, or it takes no more and holds less, or no more but for that and holds and sends less.

        >>> plain = Demand(1.0, 100, 0.0, 50.0)
        >>> [Demand(*one, 0.0, 50.0).is_worth_it(plain) for one in ((0.9, 109), (0.995, 109), (1.0, 90), (1.001, 90))]
        [True, False, True, False]
        >>> Demand(1.001, 90, 0.0, 40.0).is_worth_it(plain)
        True
        """
        if self.seconds < _WORTH * other.seconds:
            return True
        sends_less = self.sent < _WORTH * other.sent and _WORTH * self.seconds < other.seconds
        return self.beside < other.beside and (sends_less or not is_less(other.seconds, self.seconds))

    def is_better(self, other: Demand) -> bool:
        """Whether this is of the program to take: of two that fit, of that with less `seconds³ · beside`.

        >>> slim, fast = Demand(1.0, 100, 0.0, 50.0), Demand(0.9, 130, 0.0, 50.0)
        >>> fast.is_better(slim), fast._replace(beside=140).is_better(slim), fast._replace(excess=1.0).is_better(slim)
        (True, False, False)
        >>> fast._replace(beside=140, boundary=2_400).is_better(slim._replace(boundary=2_400))
        True
        """
        if self.excess or other.excess:
            return self.excess < other.excess
        merit, least = (one.seconds * max(1, one.beside, _NOTHING * one.boundary) ** (1 / 3) for one in (self, other))
        return is_less(merit, least)

    def reason(self, other: Demand) -> str:
        """Why this is the better one."""
        if self.excess < other.excess:
            return f"it holds {bytes_text(other.excess - self.excess)} less of what no device has room for"
        if not is_less(other.seconds, self.seconds):
            return "it takes less time" if is_less(self.seconds, other.seconds) else "it holds less"
        less, more = 1 - self.beside / max(1, other.beside), self.seconds / other.seconds - 1
        if less <= 0 and is_less(self.sent, other.sent):
            return f"it sends {1 - self.sent / other.sent:.0%} less for {more:.1%} more time"
        return f"it holds {less:.0%} less beside its arguments and results for {more:.1%} more time"


def room_for_orders(explicit: Graph, beside: Graph) -> int:
    """The bytes by which another order of an explicit program may hold more beside arguments and results: so that it
    holds hardly more than another program does.
    """
    most = _MORE * temporary_bytes(localize(beside))
    return max(0, int(most - temporary_bytes(localize(explicit))))


def demand_of(explicit: Graph, seconds: float | None = None) -> Demand:
    """What an explicit program asks of each device of the hardware of the session; its time where that is known."""
    local = localize(explicit)
    most, beside, boundary = current_hardware().memory_bytes, temporary_bytes(local), boundary_bytes(local)
    excess = 0.0 if most is None else max(0.0, boundary + beside - most)
    if seconds is None:
        seconds = block_seconds(ExplicitProgram(explicit), explicit.main.block.ops)
    sent = summarize(collectives(local)).total.executed_bytes
    return Demand(seconds, beside, excess, sent, boundary)
