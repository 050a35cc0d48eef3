"""What a pass made better: one entry of the log."""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.words import bytes_text

__all__ = ["Improvement"]


@dataclass(frozen=True, slots=True)
class Improvement:
    """One change of an explicit program.

    Attributes:
        by: The name of the pass.
        op: The op that it was made at, as users know it.
        location: Where that comes from.
        reason: What was done, and why that is the same program.
        bytes_saved: Bytes that each device sends less in one run of the program; negative where it sends more.
        seconds_saved: Seconds that one run takes less, by `cost.price`.
    """

    by: str
    op: str
    location: str
    reason: str
    bytes_saved: float
    seconds_saved: float

    def __str__(self) -> str:
        """`mlp.mlir:4: all-reduce-reassociate: sdy.all_reduce: …: 1.0 KiB and 2.1 µs less`."""
        sent = f"{bytes_text(self.bytes_saved)} and " if self.bytes_saved > 0 else ""
        more = f", {bytes_text(-self.bytes_saved)} more" if self.bytes_saved < 0 else ""
        saved = f"{sent}{self.seconds_saved * 1e6:.3g} µs less{more}"
        return f"{self.location}: {self.by}: {self.op}: {self.reason}: {saved}"
