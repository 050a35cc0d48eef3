"""Ways that are alike at a link: those in which a tensor has the same layout."""

from __future__ import annotations

import numpy as np

from shardwright.partition.search.all_ways import Numbers, Seconds

__all__ = ["Groups"]


class Groups:
    """The ways of a node by the number of the layout that a tensor has in them; every number up to the last is there.

    Attributes:
        of_way: For each way, the number of the layout.
        starts: Where each group starts, with ways in the order of groups.
    """

    def __init__(self, of_way: Numbers) -> None:
        """Put ways in order."""
        self.of_way = of_way
        self.order = np.argsort(of_way, kind="stable")
        self.starts = np.searchsorted(of_way[self.order], np.arange(int(of_way.max()) + 1))

    def least(self, energy: Seconds) -> Seconds:
        """What the ways of each group take at least, of what each way takes."""
        least: Seconds = np.minimum.reduceat(energy[self.order], self.starts)
        return least
