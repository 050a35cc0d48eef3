"""Parts of a program, one after the other, in which all that may be best is chosen anew at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["windows"]

_FEW, _MANY = 2_000, 4_000
"""How many more ways than nodes there are where windows are worth what they take: with fewer all are soon chosen at
once, and of a great many windows would be too many, or too small for much to be chosen otherwise.
"""


def windows(ways: Sequence[int]) -> Iterator[range]:
    """Nodes that follow each other, each time half of all: each begins in the middle of the one before.

    Arguments:
        ways: Of every node, in the order of the program, how many ways it has.

    Returns:
        None where there are too few ways, or too many.
    """
    ends = np.cumsum(ways) - np.arange(1, len(ways) + 1)
    count = int(ends[-1]) if ends.size else 0
    if not _FEW < count <= _MANY:
        return
    for part in range(3):
        begin, end = np.searchsorted(ends, (part * count // 4, (part + 2) * count // 4), side="right")
        yield range(int(begin) if part else 0, min(int(end) + 1, len(ways)))
