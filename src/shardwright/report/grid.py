"""What pictures of shardings are made of: labelled grids of cells, each a tile or a device."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

__all__ = ["DEVICES_WIDTH", "PALETTE", "Cell", "Grid"]

PALETTE = (
    "#9ecae9", "#ffbf79", "#88d27a", "#f2cf5b", "#83bcb6", "#ff9d98",
    "#d6a5c9", "#d8b5a5", "#bab0ac", "#b8b5e8", "#c5d86d", "#fcbfd2",
)  # fmt: skip
"""The colours of the tiles: light, so that black text reads on each."""

DEVICES_WIDTH = 24
"""The devices of a cell are named in lines of at most so many characters."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One rectangle: a tile with its devices, or a device with its tile.

    Attributes:
        devices: The ids of the devices named, of `count` there are.
        slices: `(start, end)` per dimension, halos left out.
        notes: Lines of text below the devices.
        colour: Index into `PALETTE`; `None` for an empty tile.
    """

    devices: tuple[int, ...]
    count: int
    slices: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]
    colour: int | None

    def device_lines(self, room: int = DEVICES_WIDTH) -> list[str]:
        """The devices named, in lines of at most `room` characters."""
        return textwrap.wrap(" ".join(map(str, self.devices)), max(1, min(room, DEVICES_WIDTH)))

    def note_lines(self, room: int | None = None) -> list[str]:
        """What is said below the devices, in lines of at most `room` characters."""
        more = (f"… of {self.count:,}",) if self.count > len(self.devices) else ()
        if room is None:
            return [*more, *self.notes]
        return [line for note in (*more, *self.notes) for line in textwrap.wrap(note, max(1, room))]


@dataclass(frozen=True, slots=True)
class Grid:
    """Labelled rows and columns of cells; `None` stands for those that are left out.

    `heights` and `widths` are the elements that each row and column stands for, where that means anything.
    """

    title: str
    rows: tuple[str | None, ...]
    columns: tuple[str | None, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    heights: tuple[int, ...] = ()
    widths: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether no row or column is left out."""
        return None not in self.rows and None not in self.columns
