"""What a whole program comes to, in five numbers: of a plan that is saved, of a trial, of what is partitioned."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a partitioned program comes to on each device.

    Attributes:
        seconds: What it takes by the price, collectives beside what computes.
        bytes_sent: What it sends in one run.
        collectives: How many collectives it executes in one run.
        argument_bytes: What its arguments take.
        peak_bytes: The most that it holds.
    """

    seconds: float
    bytes_sent: int
    collectives: int
    argument_bytes: int
    peak_bytes: int
