"""A sharding's picture as SVG: the tensor and the devices side by side, self-contained, no script, no fonts to load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from shardwright.report.grid import PALETTE, Cell, Grid

__all__ = ["drawing"]

_CHARACTER = 7.3  # width of one of a 12-pixel monospaced font, rounded up
_LINE = 16
_PADDING = 10
_MARGIN = 24
_GAP = 48
_TITLE = 26
_LENGTHWISE = (320, 200)  # pixels that a side of the tensor takes when its text needs less
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1f2328;white-space:pre}"
    ".title{font-weight:bold;font-size:13px}.label{fill:#57606a}.device{font-weight:bold}"
    ".tile{stroke:#1f2328;stroke-width:1}.empty{fill:#fff;stroke:#8c959f;stroke-dasharray:4 3}"
)


@dataclass(frozen=True, slots=True)
class _Panel:
    """One grid with the pixels of its rows and columns."""

    grid: Grid
    name: str
    widths: tuple[float, ...]
    heights: tuple[float, ...]

    @property
    def left(self) -> float:
        """Room for the labels of the rows."""
        longest = max(len(label or "") for label in self.grid.rows)
        return longest * _CHARACTER + 8 if longest else 0

    @property
    def top(self) -> float:
        """Room for the title and the labels of the columns."""
        return _TITLE + _LINE + 4

    @property
    def width(self) -> float:
        return max(self.left + sum(self.widths), len(self.grid.title) * 8)

    @property
    def height(self) -> float:
        return self.top + sum(self.heights)


def drawing(facts: Sequence[str], tensor: Grid, devices: Grid) -> str:
    """The two grids of a picture as an SVG document.

    Arguments:
        facts: What is said above them, a line each, the first as the title.
        tensor: The tiles.
        devices: The devices.

    Returns:
        The document, ending in a newline. Devices are named in texts of class `device`, in each of the groups
        `tensor` and `devices` once.
    """
    panels = _panel(tensor, "tensor"), _panel(devices, "devices")
    top = _MARGIN + len(facts) * _LINE + 12
    facts_width = max(len(fact) for fact in facts) * 8.0
    width = round(2 * _MARGIN + max(panels[0].width + _GAP + panels[1].width, facts_width))
    height = round(top + max(panel.height for panel in panels) + _MARGIN)
    texts = [_text(_MARGIN, _MARGIN + 12 + i * _LINE, fact, "" if i else "title") for i, fact in enumerate(facts)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<title>{escape(facts[0])}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *texts,
        *_draw(panels[0], _MARGIN, top),
        *_draw(panels[1], _MARGIN + panels[0].width + _GAP, top),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _panel(grid: Grid, name: str) -> _Panel:
    widths = [
        max(len(label or "") * _CHARACTER + 6, *(_needed_width(row[column]) for row in grid.cells))
        for column, label in enumerate(grid.columns)
    ]
    heights = [max(_needed_height(cell) for cell in row) for row in grid.cells]
    return _Panel(
        grid,
        name,
        _proportional(widths, grid.widths, _LENGTHWISE[0]),
        _proportional(heights, grid.heights, _LENGTHWISE[1]),
    )


def _needed_width(cell: Cell | None) -> float:
    lines = ["…"] if cell is None else [*cell.device_lines(), *cell.note_lines()]
    return max(len(line) for line in lines) * _CHARACTER + 2 * _PADDING


def _needed_height(cell: Cell | None) -> float:
    lines = 1 if cell is None else len(cell.device_lines()) + len(cell.note_lines())
    return lines * _LINE + _PADDING


def _proportional(needed: Sequence[float], lengths: Sequence[int], side: float) -> tuple[float, ...]:
    """Pixels in proportion to the elements, but never fewer than the text needs."""
    total = sum(lengths)
    if not total:
        return tuple(needed)
    return tuple(max(need, side * length / total) for need, length in zip(needed, lengths, strict=True))


def _draw(panel: _Panel, x: float, y: float) -> Iterator[str]:
    """A grid with its title and labels, its upper left corner at the point given."""
    grid = panel.grid
    yield f'<g id="{panel.name}">'
    yield _text(x, y + 12, grid.title, "title")
    across = x + panel.left
    for label, width in zip(grid.columns, panel.widths, strict=True):
        yield _text(across + width / 2, y + _TITLE + 12, "…" if label is None else label, "label", "middle")
        across += width
    down = y + panel.top
    for row, label, height in zip(grid.cells, grid.rows, panel.heights, strict=True):
        yield _text(x + panel.left - 8, down + height / 2 + 4, "…" if label is None else label, "label", "end")
        across = x + panel.left
        for cell, width in zip(row, panel.widths, strict=True):
            yield from _cell(cell, across, down, width, height)
            across += width
        down += height
    yield "</g>"


def _cell(cell: Cell | None, x: float, y: float, width: float, height: float) -> Iterator[str]:
    if cell is not None:
        empty = cell.colour is None
        look = 'class="empty"' if empty else f'class="tile" fill="{PALETTE[cell.colour or 0]}"'
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'
    devices = [] if cell is None else cell.device_lines()
    notes = ["…"] if cell is None else cell.note_lines()
    middle = x + width / 2
    line = y + (height - (len(devices) + len(notes)) * _LINE) / 2 + 12
    for text in devices:
        yield _text(middle, line, text, "device", "middle")
        line += _LINE
    for text in notes:
        yield _text(middle, line, text, "", "middle")
        line += _LINE


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    if not text:
        return ""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'
