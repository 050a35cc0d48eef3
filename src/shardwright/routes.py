"""Which shards of a dimension go to which devices, as data that does not grow with their number.

Shards along some axes are numbered by their index along these. Where rows of a dimension move evenly, the sender of a
device is a line in that index, rounded down: a shift by two shards, every third shard, a reversal.

    >>> Route.along(slope=2, offset=1, shards=4)  # odd shards go to the first devices
    Route(sender=Line(slope=2, offset=1, divisor=1), receiver=Line(slope=1, offset=-1, divisor=2), first=0, last=1)
    >>> _.pairs().tolist()
    [[1, 0], [3, 1]]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Line", "Route", "ceil_div", "greatest_residue", "least_residue"]


@dataclass(frozen=True, slots=True)
class Line:
    """Whole numbers along a line, rounded down: `(slope * index + offset) // divisor`."""

    slope: int
    offset: int
    divisor: int = 1

    def at(self, index: int) -> int:
        """The number at an index, or those at an array of them."""
        return (self.slope * index + self.offset) // self.divisor


@dataclass(frozen=True, slots=True)
class Route:
    """Shards that go from some devices to others, no two from one or to one.

    Attributes:
        sender: For each device that receives, the one that sends.
        receiver: For each device that sends, the one that receives.
        first: The first device that may receive. Between it and the last one each receives of which `sender` and
            `receiver` tell the same.
        last: The last one; one that is less where none does.
    """

    sender: Line
    receiver: Line
    first: int
    last: int

    @classmethod
    def along(cls, slope: int, offset: int, shards: int) -> Route:
        """Device `i` receives shard `slope * i + offset`, where that is one of `shards`."""
        receiver = Line(1, -offset, slope) if slope > 0 else Line(-1, offset, -slope)
        ends = (-offset, shards - 1 - offset) if slope > 0 else (offset - shards + 1, offset)
        first, last = ceil_div(ends[0], abs(slope)), ends[1] // abs(slope)
        return cls(Line(slope, offset), receiver, max(first, 0), min(last, shards - 1))

    @property
    def stays(self) -> bool:
        """Whether every shard is where it goes to already."""
        ends = (self.first, self.last)
        return all(self.sender.at(index) == index for index in ends)

    @property
    def goes_up(self) -> bool | None:
        """Whether every shard goes to a device behind its own, or, if not, to one before it; `None` where some do."""
        ways = {self.sender.at(index) < index for index in (self.first, self.last) if self.sender.at(index) != index}
        return ways.pop() if len(ways) == 1 else None

    def pairs(self) -> Any:
        """`(sender, receiver)` of every shard, an array of two columns sorted by receiver."""
        import numpy as np  # for text alone: routes are planned without it

        receiver: Any = np.arange(self.first, self.last + 1)
        sender: Any = self.sender.at(receiver)
        kept = self.receiver.at(sender) == receiver
        return np.stack([sender[kept], receiver[kept]], axis=1)


def ceil_div(number: int, divisor: int) -> int:
    """The quotient rounded up."""
    return -(-number // divisor)


def least_residue(slope: int, offset: int, modulus: int, count: int) -> int:
    """The least of `(slope * i + offset) % modulus` for `i` below `count`, in steps that grow as its logarithm.

    Each lap through the residues is least where it begins, and these beginnings lie on a line of their own.

    >>> least_residue(5, 3, 7, 3)  # of 3, 1, 6
    1
    """
    slope, offset = slope % modulus, offset % modulus
    if 2 * slope > modulus:  # from the other end the line is less steep
        slope, offset = modulus - slope, (slope * (count - 1) + offset) % modulus
    laps = (slope * (count - 1) + offset) // modulus
    return min(offset, least_residue(-modulus, offset - modulus, slope, laps)) if laps else offset


def greatest_residue(slope: int, offset: int, modulus: int, count: int) -> int:
    """The greatest of `(slope * i + offset) % modulus` for `i` below `count`."""
    return modulus - 1 - least_residue(-slope, -1 - offset, modulus, count)
