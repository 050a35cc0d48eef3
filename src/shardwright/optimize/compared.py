"""Which of two explicit programs of one plan is the better one: the faster, unless it holds much more.

For less time a device may hold more beside its arguments, by three times the share: a third more for a tenth less. What
a search for less time comes to of a GPT of 8 layers takes 4 % less and holds 2.1 times as much, which nobody would
want; and a recurrent network that takes a fortieth of the time may hold three times as much. One that fits into the
memory of the hardware comes before one that does not.
"""

from __future__ import annotations

from typing import NamedTuple

from shardwright.ir.graph import Graph
from shardwright.optimize.explicit import ExplicitProgram
from shardwright.optimize.works import block_seconds, is_less
from shardwright.words import bytes_text

__all__ = ["Demand", "demand_of"]


class Demand(NamedTuple):
    """What a program asks of each device.

    Attributes:
        seconds: What it takes, collectives beside what computes.
        beside: The most bytes that are alive at once, its arguments not counted.
        excess: Bytes that it holds beyond what the hardware has, where that is known.
    """

    seconds: float
    beside: int
    excess: float

    def is_better(self, other: Demand) -> bool:
        """Whether this is of the program to take: of two that fit, of that with less `seconds³ · beside`.

        >>> slim, fast = Demand(1.0, 100, 0.0), Demand(0.9, 130, 0.0)
        >>> fast.is_better(slim), Demand(0.9, 140, 0.0).is_better(slim), fast._replace(excess=1.0).is_better(slim)
        (True, False, False)
        """
        if self.excess or other.excess:
            return self.excess < other.excess
        return is_less(self.seconds * max(1, self.beside) ** (1 / 3), other.seconds * max(1, other.beside) ** (1 / 3))

    def reason(self, other: Demand) -> str:
        """Why this is the better one."""
        if self.excess < other.excess:
            return f"it holds {bytes_text(other.excess - self.excess)} less of what no device has room for"
        if not is_less(other.seconds, self.seconds):
            return "it takes less time" if is_less(self.seconds, other.seconds) else "it holds less"
        less, more = 1 - self.beside / other.beside, self.seconds / other.seconds - 1
        return f"it holds {less:.0%} less beside its arguments for {more:.1%} more time"


def demand_of(explicit: Graph) -> Demand:
    """What an explicit program asks of each device of the hardware of the session."""
    program = ExplicitProgram(explicit)
    use, most = program.memory_use(), program.hardware.memory_bytes
    excess = 0.0 if most is None else max(0.0, use.peak - most)
    return Demand(block_seconds(program, explicit.main.block.ops), use.peak - use.arguments, excess)
