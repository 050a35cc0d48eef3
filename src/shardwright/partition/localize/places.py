"""Where windows of a split dimension begin, as scalars that a device computes from its index; none is written twice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from shardwright.axes import Axes
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.windows import Window
from shardwright.routes import Line, Route, ceil_div

__all__ = ["Places"]

_WIDE = 1 << 30
"""Numbers from which on `i32` may be too small for what is computed of them."""


class Places:
    """Index arithmetic of one device.

    Attributes:
        index: This device's index along the axes that split the dimension.
    """

    def __init__(self, ctx: Local, axes: Axes, mesh: Mesh, windows: Sequence[Window]) -> None:
        """Write with `ctx` what windows of a dimension split along `axes` of `mesh` take."""
        self.ctx, self.shards = ctx, windows[0].shards
        reach = max(abs(one.base) + (abs(one.pace) + one.rows) * (one.shards + 1) + one.size for one in windows)
        self.scalar = TensorType((), "i64" if reach >= _WIDE else "i32")
        self.index = ctx.convert(ctx.axis_index(axes, mesh), self.scalar.dtype)
        self._made: dict[tuple[object, ...], int] = {}

    def number(self, number: int) -> int:
        """A constant."""
        if (number,) not in self._made:
            self._made[number,] = self.ctx.constant(number, self.scalar)
        return self._made[number,]

    def binary(self, name: str, left: int, right: int) -> int:
        """An op of two scalars, or a comparison of them (`EQ`, `GE`, `LE`)."""
        key = (name, left, right)
        if key not in self._made:
            made = self.ctx.compare(left, right, name) if name.isupper() else self.ctx.binary(name, left, right)
            self._made[key] = made
        return self._made[key]

    def line(self, line: Line, index: int) -> int:
        """The number of a line at an index. StableHLO rounds towards zero: only what is not negative is divided."""
        value = index if line.slope == 1 else self.binary("multiply", index, self.number(line.slope))
        least = line.offset + min(0, line.slope * self.shards)
        lift = max(0, ceil_div(-least, line.divisor)) if line.divisor > 1 else 0
        offset = line.offset + lift * line.divisor
        value = self.binary("add", value, self.number(offset)) if offset else value
        value = self.binary("divide", value, self.number(line.divisor)) if line.divisor > 1 else value
        return self.binary("subtract", value, self.number(lift)) if lift else value

    def begin(self, window: Window, receiver: int, sender: int) -> int:
        """Where the window of one device begins in the shard of another."""
        first = self.line(Line(window.pace, window.base), receiver)
        return self.binary("subtract", first, self.line(Line(window.rows, 0), sender))

    def start(self, begin: int, rows: int, window: Window) -> int:
        """The first of so many rows of its shard that a device sends for a window that begins at `begin` of it."""
        return self.clamped(begin, window.rows - rows)

    def clamped(self, value: int, most: int) -> int:
        """A scalar brought between 0 and `most`."""
        zero = self.number(0)
        return self.ctx.emit("clamp", (zero, value, self.number(most)), self.scalar) if most else zero

    def is_receiver(self, route: Route) -> list[int]:
        """What must be true for this device to receive something along a route."""
        conditions = self.between(self.index, route.first, route.last)
        if route.sender.divisor > route.sender.slope:  # a shard stands there for several devices, and goes to one
            back = self.line(route.receiver, self.line(route.sender, self.index))
            conditions.append(self.binary("EQ", back, self.index))
        return conditions

    def is_sender(self, route: Route) -> list[int]:
        """What must be true for this device to send something along a route."""
        receiver = self.line(route.receiver, self.index)
        conditions = [self.binary("GE", receiver, self.number(route.first))]
        conditions.append(self.binary("LE", receiver, self.number(route.last)))
        if route.sender.slope > route.sender.divisor:
            conditions.append(self.binary("EQ", self.line(route.sender, receiver), self.index))
        return conditions

    def within(self, ranges: list[tuple[int, int]]) -> int:
        """Whether the index of this device is in one of several ranges, which are not all indices together."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            first = merged.pop()[0] if merged and merged[-1][1] + 1 == first else first
            merged.append((first, last))
        return self.any([self.between(self.index, *one) for one in merged])

    def between(self, index: int, first: int, last: int) -> list[int]:
        """What must be true for the index of a device to be from `first` to `last`."""
        above = [self.binary("GE", index, self.number(first))] if first > 0 else []
        return above + ([self.binary("LE", index, self.number(last))] if last < self.shards - 1 else [])

    def all(self, conditions: list[int]) -> int:
        """Whether all conditions hold, of which there is one at least."""
        return reduce(lambda one, other: self.binary("and", one, other), conditions)

    def any(self, alternatives: list[list[int]]) -> int:
        """Whether all conditions of one of several lists hold."""
        return reduce(lambda one, other: self.binary("or", one, other), map(self.all, alternatives))
