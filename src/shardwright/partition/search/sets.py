"""What a value takes that many ends read in few layouts: told by the set of those in which it is read.

All that read it in one layout share a version. So what all versions take depends on which layouts are read at all, and
what is least of all that readers may choose is told reader by reader, for each set that comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.rows import Numbers

__all__ = ["MOST", "Sets"]

MOST = 12
"""How many layouts a value may have at its ends for all sets of them to be told."""


class Sets:
    """A value, its maker and its readers, by sets of layouts.

    Attributes:
        table: What the value takes for each layout in which it is made, and each set of those in which it is read.
        read: For each reader the numbers of the layouts in which it may have it.
    """

    def __init__(self, table: Seconds, read: Sequence[Numbers]) -> None:
        """What is told of the value; sets are numbers, of which each layout is a bit."""
        self.table = table
        self.read = read

    def taken(self, made: Numbers | int, read: Sequence[Numbers | int]) -> Seconds:
        """What it takes, by the number of the layout at each end: of arrays whose shapes fit each other, one by one."""
        sets: Numbers = np.bitwise_or.reduce(
            np.broadcast_arrays(*[1 << layouts[one] for layouts, one in zip(self.read, read, strict=True)])
        )
        taken: Seconds = self.table[made, sets]
        return taken

    def times(self, times: float, most: float) -> Sets:
        """The same as often as told, and no more than what is impossible takes."""
        return Sets(np.minimum(times * self.table, most), self.read)

    def least(self, given: Sequence[Seconds], parts: list[Seconds | None], place: int, least: Seconds) -> None:
        """As `stars.Star` has it."""
        others = np.full(self.table.shape[1], np.inf)
        others[0] = 0.0
        for reader, layouts in enumerate(self.read, 1):
            if reader != place:
                others = self._with(others, layouts, -given[reader])
        if not place:
            np.minimum.reduce(self.table + others, axis=1, out=least)
            return
        of_sets = np.minimum.reduce(self.table - given[0][:, None], axis=0)
        for number, layout in enumerate(self.read[place - 1].tolist()):
            without, with_it = np.moveaxis(self._by(others, layout), 1, 0)
            least[number] = (np.minimum(without, with_it) + self._by(of_sets, layout)[:, 1]).min()

    def _with(self, others: Seconds, layouts: Numbers, energy: Seconds) -> Seconds:
        """What is least for each set with one more reader, by what that takes for each of its layouts."""
        found = np.full(others.size, np.inf)
        for layout, taken in zip(layouts.tolist(), energy.tolist(), strict=True):
            there, before = self._by(found, layout)[:, 1], self._by(others, layout)
            np.minimum(there, np.minimum(before[:, 0], before[:, 1]) + taken, out=there)
        return found

    def _by(self, of_sets: Seconds, layout: int) -> Seconds:
        """What sets have, with a dimension for the bits above that of a layout, one for it, and one for those below."""
        return of_sets.reshape(-1, 2, 1 << layout)
