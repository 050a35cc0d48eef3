"""Which rows of a split dimension every device needs: data that does not grow with the number of devices.

A dimension is split into shards of as many rows. Device `s` needs a window of it: the rows from `base + pace * s` on,
`size` of them, some of which may lie outside. Where these come from, `transfers` tells.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Window"]


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a split dimension that each device needs.

    Attributes:
        shards: Into how many shards the dimension is split.
        rows: Of a shard.
        base: The first row that device 0 needs; it may lie outside.
        pace: How far the window of a device is from the one before. Where it is negative, a multiple of `rows`.
        size: Rows of a window, at least one.
    """

    shards: int
    rows: int
    base: int
    pace: int
    size: int

    @property
    def even(self) -> bool:
        """Whether windows begin at the same row of a shard on every device."""
        return self.pace % self.rows == 0

    @property
    def own(self) -> bool:
        """Whether every device needs its shard, and no more."""
        return self.base == 0 and self.pace == self.size == self.rows
