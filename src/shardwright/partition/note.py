"""What users are told of how a program was partitioned, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Note"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something a user may want to know of how an op was partitioned.

    Attributes:
        op: The op as users know it.
        location: Its place in the source.
        message: What was done, and why.
        bytes: Bytes per device because of it, once.
        measure: Whether these are `sent`, `held` beyond what was asked for, or `spared`.
    """

    op: str
    location: str
    message: str
    bytes: int
    measure: str = "sent"
