"""Rows of numbers, many at once: which of them are equal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flags", "Numbers", "Rows", "in_order", "starts_of"]

Numbers = NDArray[np.intp]
Flags = NDArray[np.bool_]

_MOST = 1 << 62
"""Numbers stay below."""


class _Long(NamedTuple):
    """Rows of one length.

    Attributes:
        rows: Their numbers.
        starts: Where each begins.
        length: How many numbers are in each.
    """

    rows: Numbers
    starts: Numbers
    length: int


class Rows:
    """Where rows are in an array of numbers that has one after the other.

    Attributes:
        count: How many there are.
    """

    def __init__(self, lengths: Numbers, starts: Numbers) -> None:
        """Rows of these lengths that begin there."""
        self.count = lengths.size
        self._long = []
        for length in np.flatnonzero(np.bincount(lengths)).tolist():  # without what numpy loads for `unique`
            rows = np.flatnonzero(lengths == length)
            self._long.append(_Long(rows, starts[rows], length))

    def alike(self, first: Numbers, numbers: Numbers) -> Numbers:
        """A number for each row, the same for those that are equal, those up to the last one each.

        Arguments:
            first: For each row a number in front of those in it.
            numbers: The numbers of all rows, none below 0.
        """
        found = np.empty(self.count, dtype=np.intp)
        sizes, before = 1 + int(numbers.max(initial=0)), 0
        for rows, starts, length in self._long:
            alike, size = first[rows], 1 + int(first.max(initial=0))
            for place in range(length):  # as the digits of a number
                if size >= _MOST // sizes:
                    alike, size = _dense(alike)
                alike, size = alike * sizes + numbers[starts + place], size * sizes
            alike, size = _dense(alike)
            found[rows] = alike + before
            before += size
        return found


def _dense(numbers: Numbers) -> tuple[Numbers, int]:
    """Numbers up to how many different ones there are, in the place of others, and that."""
    different, dense = np.unique(numbers, return_inverse=True)
    return dense, different.size


def in_order(numbers: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers in the order in which they first appear in the place of others, and where each of them first does."""
    _, first, dense = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(order.size, dtype=np.intp)
    ranks[order] = np.arange(order.size)
    return ranks[dense], first[order]


def starts_of(lengths: Numbers) -> Numbers:
    """Where rows of these lengths begin that stand one after the other."""
    starts: Numbers = np.cumsum(lengths) - lengths
    return starts
