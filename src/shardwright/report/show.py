"""A sharding as two pictures: the tensor cut into tiles, and the devices with the slice that each holds.

A `Picture` is what is drawn, whatever draws it: `report.boxes` for terminals, `report.svg` for files. Only what is
drawn is ever computed, so that a mesh of a million devices costs no more than one of 64.

    >>> from shardwright.mesh import Mesh
    >>> for line in picture_lines(picture(TensorSharding.of(Mesh(x=2), [["x"], []]), (4, 3)))[3:12]:
    ...     print(line.plain)
    Tensor: the devices on each tile
            0:3
          ┌─────┐
      0:2 │ 0   │
          │ 2x3 │
          ├─────┤
      2:4 │ 1   │
          │ 2x3 │
          └─────┘

Source: the tensor view and the device view of the mesh dialect's RFC.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from shardwright.axes import Axes, axes_size, subtract_axes
from shardwright.mesh import Mesh
from shardwright.report.boxes import grid_lines
from shardwright.report.devices import describe_mesh, mesh_line
from shardwright.report.grid import PALETTE, Cell, Grid
from shardwright.report.layout import Page
from shardwright.report.summary import Summary
from shardwright.report.svg import drawing
from shardwright.sharding import TensorSharding
from shardwright.words import counted

__all__ = ["Picture", "describe_picture", "picture", "picture_lines", "picture_svg", "print_picture"]

WHOLE = 64
"""Grids of up to so many cells are drawn whole, and so many devices named in a tile."""
_SIDE = 8
_LINE = 16
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Picture:
    """A sharding drawn twice, with what is to be said of it, a line each."""

    facts: tuple[str, ...]
    tensor: Grid
    devices: Grid

    def __str__(self) -> str:
        """As in a terminal, without colours."""
        return "\n".join(line.plain for line in picture_lines(self))

    def _repr_html_(self) -> str:
        """For notebooks."""
        return picture_svg(self)


def picture(sharding: TensorSharding, shape: Sequence[int]) -> Picture:
    """Draw how a tensor of `shape` lies on its mesh.

    Raises:
        ShardingError: the sharding does not fit the shape.
    """
    sharding.check(shape)
    layout = _Layout(sharding, tuple(shape), sharding.mesh)
    return Picture(tuple(layout.facts()), layout.tensor(), layout.devices())


def picture_svg(drawn: Picture) -> str:
    """A picture as an SVG document, ending in a newline."""
    return drawing(drawn.facts, drawn.tensor, drawn.devices)


def describe_picture(drawn: Picture) -> Summary:
    """A picture as JSON: the cells that are drawn, slices as `[start, end]`."""

    def cells(grid: Grid) -> Iterator[Summary]:
        for cell in itertools.chain.from_iterable(grid.cells):
            if cell is not None:
                yield {
                    "devices": list(cell.devices),
                    "device_count": cell.count,
                    "slice": [list(bounds) for bounds in cell.slices],
                    "notes": list(cell.notes),
                }

    return {
        "facts": list(drawn.facts),
        "tiles": list(cells(drawn.tensor)),
        "tiles_complete": drawn.tensor.is_whole,
        "devices": list(cells(drawn.devices)),
        "devices_complete": drawn.devices.is_whole,
    }


@dataclass(frozen=True, slots=True)
class _Layout:
    """A sharding of a shape, and which dimensions are drawn down and across."""

    sharding: TensorSharding
    shape: tuple[int, ...]
    mesh: Mesh

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(axes_size(axes) for axes in self.sharding.axes)

    @property
    def drawn(self) -> tuple[int | None, int | None]:
        """The dimensions drawn down and across: the first two that are split, and where too few are, others."""
        split = [dim for dim, count in enumerate(self.counts) if count > 1]
        rest = [dim for dim, count in enumerate(self.counts) if count == 1]
        down, across = (None, None, *sorted([*split, *rest][:2]))[-2:]
        return down, across

    def axes_of(self, dim: int | None) -> Axes:
        return () if dim is None else self.sharding.axes[dim]

    @property
    def free(self) -> Axes:
        """The axes along which devices share a cell of the drawn grid."""
        down, across = self.drawn
        return self._without((*self.axes_of(down), *self.axes_of(across)))

    def _without(self, used: Axes) -> Axes:
        return self.mesh.in_order(subtract_axes(map(self.mesh.axis, self.mesh.sizes), used))

    def facts(self) -> Iterator[str]:
        lengths = replace(self.sharding, halos=None).local_shape(self.shape)
        even = self.sharding.divides(self.shape) and not self.sharding.offsets
        tiles = math.prod(self.counts)
        if tiles == 1:
            yield f"tensor {_times(self.shape)}, not cut"
        else:
            yield (
                f"tensor {_times(self.shape)} in {counted(tiles, 'tile', ',')} ({_times(self.counts)}) "
                f"of {'' if even else 'at most '}{_times(lengths)}"
            )
        yield mesh_line(describe_mesh(self.mesh))
        yield from self._shared_facts()
        for dim, halo in enumerate(self.sharding.halos or ()):
            if halo is not None:
                yield f"halo of dimension {dim}: {_halo(halo)} elements of the neighbours"
        for dim, count in enumerate(self.counts):
            if dim not in self.drawn and count > 1:
                yield f"dimension {dim} is cut into {count:,} as well: a cell drawn holds all of these"

    def _shared_facts(self) -> Iterator[str]:
        partial = self.sharding.partial_axes
        copies = tuple(axis for axis in self._without((*self.sharding.used_axes, *partial)) if axis.size > 1)
        if copies:
            yield f"replicated over {self._names(copies)}: {axes_size(copies):,} devices hold the same"
        for kind in dict.fromkeys(p.kind for p in self.sharding.partial):
            over = tuple(p.axis for p in self.sharding.partial if p.kind == kind)
            yield f"partial {kind} over {self._names(over)}: {axes_size(over):,} contributions to every tile"

    def _names(self, axes: Axes) -> str:
        return ", ".join(map(self.mesh.axis_text, axes))

    def tensor(self) -> Grid:
        down, across = self.drawn
        counts = [axes_size(self.axes_of(dim)) for dim in (down, across)]
        rows, columns = _picked(*counts)
        row_labels, heights = self._side(down, rows)
        column_labels, widths = self._side(across, columns)
        cells = tuple(tuple(self._tile(row, column) for column in columns) for row in rows)
        return Grid("Tensor: the devices on each tile", row_labels, column_labels, cells, heights, widths)

    def _side(self, dim: int | None, shards: Sequence[int | None]) -> tuple[tuple[str | None, ...], tuple[int, ...]]:
        """Label and length of every shard drawn along one side of the picture, which may stand for no dimension."""
        if dim is None:
            return ("",), ()
        axes = self.sharding.axes[dim]
        parts = [
            None if shard is None else self.sharding.device_slice(self.shape, _offset(self.mesh, axes, shard))[dim]
            for shard in shards
        ]
        labels = tuple(None if part is None else f"{part.start}:{part.stop}" for part in parts)
        return labels, tuple(0 if part is None else part.stop - part.start for part in parts)

    def _tile(self, row: int | None, column: int | None) -> Cell | None:
        if row is None or column is None:
            return None
        down, across = self.drawn
        first = _offset(self.mesh, self.axes_of(down), row) + _offset(self.mesh, self.axes_of(across), column)
        parts = self.sharding.device_slice(self.shape, first)
        slices = tuple(
            (part.start, part.stop) if dim in (down, across) else (0, self.shape[dim]) for dim, part in enumerate(parts)
        )
        count = axes_size(self.free)
        named = count if self.mesh.size <= WHOLE or count <= _NAMED else _NAMED
        devices = tuple(self.mesh.device_id(first + _offset(self.mesh, self.free, i)) for i in range(named))
        lengths = [end - start for start, end in slices]
        notes = [_times(lengths) + (" empty" if 0 in lengths else "")]
        if any(self.sharding.halos or ()):
            notes.append("halo " + ", ".join(_halo(halo or (0, 0)) for halo in self.sharding.halos or ()))
        return Cell(devices, count, slices, tuple(notes), None if 0 in lengths else self._colour(row, column))

    def _colour(self, row: int, column: int) -> int:
        """Every tile its own colour where there are enough; else neighbours differ."""
        down, across = (axes_size(self.axes_of(dim)) for dim in self.drawn)
        return (row * across + column if down * across <= len(PALETTE) else row * 5 + column) % len(PALETTE)

    def devices(self) -> Grid:
        *leading, last = (("", 1), *self.mesh.axes)
        width = last[1]
        rows, columns = _picked(self.mesh.size // width, width)
        names = [axis for axis, _ in leading if axis]
        cells = tuple(
            tuple(None if row is None or column is None else self._device(row * width + column) for column in columns)
            for row in rows
        )

        def label(row: int) -> str:
            coordinates = self.mesh.coordinates(row * width)
            return " ".join(f"{name}={coordinates[name]}" for name in names)

        return Grid(
            "Devices: the slice that each holds",
            tuple(None if row is None else label(row) for row in rows),
            tuple(None if column is None else f"{last[0]}={column}" if last[0] else "" for column in columns),
            cells,
        )

    def _device(self, position: int) -> Cell:
        slices = tuple((s.start, s.stop) for s in self.sharding.device_slice(self.shape, position))
        halos = self.sharding.halos or (None,) * len(slices)
        parts = [f"{start}:{end} {_halo(halo)}".rstrip() for (start, end), halo in zip(slices, halos, strict=True)]
        empty = any(start == end for start, end in slices)
        notes = [f"[{', '.join(parts)}]", *(["empty"] if empty else [])]
        partial = self.sharding.partial_axes
        if partial:
            notes.append(f"part {self.mesh.index(partial, position) + 1}/{axes_size(partial)}")
        row, column = (self.mesh.index(self.axes_of(dim), position) for dim in self.drawn)
        colour = None if empty else self._colour(row, column)
        return Cell((self.mesh.device_id(position),), 1, slices, tuple(notes), colour)


def _offset(mesh: Mesh, axes: Axes, index: int) -> int:
    """The grid position of the first device that holds part `index` of a dimension split over `axes`."""
    position = 0
    for axis in reversed(axes):
        position += index % axis.size * mesh.digit(axis)[0]
        index //= axis.size
    return position


def _picked(rows: int, columns: int) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """The rows and columns to draw: all of few, of many the first ones, a gap and the last."""
    if rows * columns <= WHOLE:
        return tuple(range(rows)), tuple(range(columns))
    side = _LINE if 1 in (rows, columns) else _SIDE

    def pick(count: int) -> tuple[int | None, ...]:
        return tuple(range(count)) if count <= side else (*range(side - 2), None, count - 1)

    return pick(rows), pick(columns)


def _times(sizes: Iterable[int]) -> str:
    return "x".join(map(str, sizes)) or "scalar"


def _halo(halo: tuple[int, int] | None) -> str:
    return f"+{halo[0]}/+{halo[1]}" if halo else ""


def print_picture(out: Console, drawn: Picture) -> None:
    """Print a picture, folded to the width of a terminal, in its colours."""
    for line in picture_lines(drawn, out.width if out.is_terminal else None):
        out.print(line)


def picture_lines(drawn: Picture, width: int | None = None) -> list[Text]:
    """A picture as styled lines of at most `width` characters, as far as that can be."""
    lines = _wrapped(drawn.facts[0], width, "bold")
    for fact in drawn.facts[1:]:
        lines += _wrapped(fact, width)
    for grid in (drawn.tensor, drawn.devices):
        lines += [Text(), *_wrapped(grid.title, width, "bold"), *grid_lines(grid, width)]
    return lines


def _wrapped(text: str, width: int | None, style: str = "") -> list[Text]:
    page = Page(width)
    page.line(text, indent=0, style=style)
    return [Text(line, style=style) for line, style in page.lines]
