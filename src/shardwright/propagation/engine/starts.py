"""What rounds begin with that are gone through again and again, of a program whose ops stay as they are."""

from __future__ import annotations

from shardwright.propagation.engine.worklist import StepTable

__all__ = ["Starts"]


class Starts:
    """What is known of how rounds begin.

    Attributes:
        blank: The tables of ops before the first.
        known: The tables of a round's ops and those that are due, by the identity of what these follow from.
    """

    def __init__(self, blank: list[StepTable | None]) -> None:
        """Nothing is known yet."""
        self.blank = blank
        self.known: dict[tuple[int, int], tuple[list[StepTable | None], int]] = {}
