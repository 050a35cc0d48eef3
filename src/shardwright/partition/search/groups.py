"""Ways that are alike at a link: those in which a tensor has the same layout."""

from __future__ import annotations

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds

__all__ = ["Groups"]


class Groups:
    """The ways of a node by the number of the layout that a tensor has in them; every number up to the last is there.

    Attributes:
        of_way: For each way, the number of the layout.
        count: How many groups there are.
        is_each: Whether each way is a group of its own, and in its place: mostly so.
    """

    def __init__(self, of_way: Numbers) -> None:
        """Put ways in order."""
        self.of_way = of_way
        self.is_each = np.array_equal(of_way, np.arange(of_way.size))
        self.count = of_way.size
        if not self.is_each:
            self.order = np.argsort(of_way, kind="stable")
            self.count = int(of_way[self.order[-1]]) + 1
            self.starts = np.searchsorted(of_way, np.arange(self.count), sorter=self.order)

    def least(self, energy: Seconds) -> Seconds:
        """What the ways of each group take at least, of what each way takes: not to be changed."""
        if self.is_each:
            return energy
        least: Seconds = np.minimum.reduceat(energy[self.order], self.starts)
        return least

    def spread(self, of_group: Seconds) -> Seconds:
        """For each way what its group has: not to be changed."""
        return of_group if self.is_each else of_group[self.of_way]
