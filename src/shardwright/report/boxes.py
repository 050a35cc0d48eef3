"""Grids of cells as boxes in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from rich.text import Text

from shardwright.report.grid import DEVICES_WIDTH, PALETTE, Cell, Grid

__all__ = ["grid_lines"]


def grid_lines(grid: Grid, width: int | None) -> Iterator[Text]:
    """A grid in boxes; columns for which there is no room follow below, under their own labels."""
    margin = max(len(label or "") for label in grid.rows) + 3
    room = None if width is None else max(width - margin - 4, 4)
    texts = [[_cell_lines(cell, room) for cell in row] for row in grid.cells]
    sizes = [
        max(len(line) for line in (label or "", *itertools.chain.from_iterable(row[column] for row in texts)))
        for column, label in enumerate(grid.columns)
    ]
    for number, block in enumerate(_blocks(sizes, None if width is None else width - margin - 1)):
        if number:
            yield Text()
        yield from _block_lines(grid, texts, sizes, block, " " * margin)


def _cell_lines(cell: Cell | None, room: int | None) -> list[str]:
    if cell is None:
        return ["…"]
    return [*cell.device_lines(room or DEVICES_WIDTH), *cell.note_lines(room)]


def _blocks(sizes: Sequence[int], room: int | None) -> list[list[int]]:
    """The columns in blocks that fit into `room` characters each: `_blocks([3, 3, 3], 12)` is `[[0, 1], [2]]`."""
    blocks: list[list[int]] = [[]]
    used = 0
    for column, size in enumerate(sizes):
        if room is not None and blocks[-1] and used + size + 3 > room:
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += size + 3
    return blocks


def _block_lines(
    grid: Grid, texts: list[list[list[str]]], sizes: Sequence[int], block: Sequence[int], margin: str
) -> Iterator[Text]:
    """Some columns of a grid, with the labels of the rows at the left and of the columns on top."""
    if any(grid.columns[column] != "" for column in block):
        labels = "   ".join((grid.columns[column] or "…").ljust(sizes[column]) for column in block)
        yield Text(f"{margin}  {labels}".rstrip())
    bars = ["─" * (sizes[column] + 2) for column in block]
    for number, row in enumerate(texts):
        left, middle, right = "├┼┤" if number else "┌┬┐"
        yield Text(f"{margin}{left}{middle.join(bars)}{right}")
        label = "…" if grid.rows[number] is None else grid.rows[number]
        for height in range(max(len(row[column]) for column in block)):
            line = Text(f"{'' if height else label:>{len(margin) - 1}} │")
            for column in block:
                lines = row[column]
                text = f" {lines[height] if height < len(lines) else '':<{sizes[column]}} "
                line.append(text, _style(grid.cells[number][column])).append("│")
            yield line
    yield Text(f"{margin}└{'┴'.join(bars)}┘")


def _style(cell: Cell | None) -> str:
    return "dim" if cell is None or cell.colour is None else f"black on {PALETTE[cell.colour]}"
