"""Device orders of `mhlo.sharding` and their digits: how a grid of tiles falls onto devices, by strides.

A *digit* `(size, stride)` is a coordinate that steps through devices by `stride`. An iota order is a list of digits,
major to minor, so it is never expanded: `<=[2,4]T(1,0)` counts 0, 4, 1, 5, … by the digits `(4, 1), (2, 4)`.

    >>> Iota((2, 4), (1, 0)).digits()
    ((4, 1), (2, 4))
    >>> digits_per_dim((2, 2, 2), Iota((2, 4), (1, 0)).digits())
    (((2, 2),), ((2, 1),), ((2, 4),))

Source: XLA's `TileAssignment` and `IotaTileAssignment`; `hlo_sharding` grammar of its HLO parser.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardwright.errors import ShardingError
from shardwright.strides import Digits

__all__ = [
    "MAX_EXPANDED",
    "Iota",
    "Order",
    "digits_of_list",
    "digits_per_dim",
    "expand",
    "order_size",
]

MAX_EXPANDED = 1 << 17
"""Most devices of an iota order that is ever written out as a list."""


@dataclass(frozen=True, slots=True)
class Iota:
    """`<=[reshape]T(perm)`: device ids in order, reshaped, transposed and flattened."""

    reshape: tuple[int, ...]
    perm: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.reshape)

    def digits(self) -> Digits:
        """The order as digits, those of size 1 left out and neighbours merged."""
        inner = itertools.accumulate(reversed(self.reshape), operator.mul, initial=1)
        strides = list(inner)[-2::-1]
        return merge_digits((self.reshape[index], strides[index]) for index in self.perm)

    @classmethod
    def of_digits(cls, digits: Iterable[tuple[int, int]]) -> Iota:
        """The canonical iota that counts by `digits`, which must together number all devices."""
        merged = merge_digits(digits)
        if not merged:
            return cls((1,), (0,))
        by_stride = sorted(range(len(merged)), key=lambda index: -merged[index][1])
        reshape = tuple(merged[index][0] for index in by_stride)
        return cls(reshape, tuple(by_stride.index(index) for index in range(len(merged))))

    def canonical(self) -> Iota:
        """The same order with dimensions of size 1 dropped and consecutive ones merged, as XLA prints it."""
        return Iota.of_digits(self.digits())

    def __str__(self) -> str:
        """`[2,4]T(1,0)`, or `[8]`."""
        text = f"[{','.join(map(str, self.reshape))}]"
        return text if len(self.reshape) == 1 else f"{text}T({','.join(map(str, self.perm))})"


Order = Iota | tuple[int, ...]
"""Which device has each tile, in row-major order of the tiles: counted (V2) or listed (V1)."""


def order_size(order: Order) -> int:
    """Number of devices in `order`."""
    return order.size if isinstance(order, Iota) else len(order)


def merge_digits(digits: Iterable[tuple[int, int]]) -> Digits:
    """Digits of size 1 dropped, neighbours that count on from one another made one: `(2, 4), (4, 1)` → `(8, 1)`."""
    merged: list[tuple[int, int]] = []
    for size, stride in digits:
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            size *= merged.pop()[0]
        merged.append((size, stride))
    return tuple(merged)


def digits_per_dim(dims: Sequence[int], digits: Digits) -> tuple[Digits, ...] | None:
    """The digits that count along each of `dims`, or `None` where a dimension ends amid a digit that cannot be cut.

    `[3,2]<=[3,2]T(1,0)` is such a one: it counts 0, 2, 4, 1, 3, 5, so its rows are 0 2, 4 1 and 3 5.
    """
    rest = list(digits)
    per_dim: list[Digits] = []
    for left in reversed(dims):
        taken: list[tuple[int, int]] = []
        while left > 1:
            if not rest:
                return None
            size, stride = rest.pop()
            if left % size == 0:
                taken.append((size, stride))
                left //= size
            elif size % left == 0:
                taken.append((left, stride))
                rest.append((size // left, stride * left))
                left = 1
            else:
                return None
        per_dim.append(merge_digits(reversed(taken)))
    return tuple(reversed(per_dim))


def expand(order: Order) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The device of each tile, in row-major order of the tiles.

    Raises:
        ShardingError: an iota of more than `MAX_EXPANDED` devices.
    """
    if not isinstance(order, Iota):
        return np.array(order, dtype=np.int64)
    if order.size > MAX_EXPANDED:
        raise ShardingError(
            f"the order <={order} of {order.size} devices must be written out as a list here",
            cause=f"lists are limited to {MAX_EXPANDED} devices",
            remedy="use an order that the axes of a mesh can express",
        )
    short = order.canonical()
    return np.arange(order.size, dtype=np.int64).reshape(short.reshape).transpose(short.perm).ravel()


def digits_of_list(dims: Sequence[int], positions: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[Digits, ...] | None:
    """The digits along each of `dims` of a listed order, or `None` where it does not count by digits."""
    grid = positions.reshape(tuple(dims))
    if grid.flat[0] != 0:
        return None
    per_dim: list[Digits] = []
    total = np.zeros((1,) * len(dims), dtype=np.int64)
    for dim in range(len(dims)):
        line = np.moveaxis(grid, dim, 0).reshape(dims[dim], -1)[:, 0]
        digits = _digits_of_line(line)
        if digits is None:
            return None
        per_dim.append(digits)
        total = total + line.reshape([-1 if index == dim else 1 for index in range(len(dims))])
    return tuple(per_dim) if np.array_equal(total, grid) else None


def _digits_of_line(line: np.ndarray[Any, np.dtype[np.int64]]) -> Digits | None:
    """Digits of values that begin with 0: the longest run by one stride is the minor digit, and so on outward."""
    digits: list[tuple[int, int]] = []
    while len(line) > 1:
        stride = int(line[1])
        unlike = np.nonzero(line != np.arange(len(line), dtype=np.int64) * stride)[0]
        run = int(unlike[0]) if len(unlike) else len(line)
        if stride <= 0 or len(line) % run:
            return None
        rows = line.reshape(-1, run)
        if not np.array_equal(rows - rows[:, :1], np.broadcast_to(rows[0], rows.shape)):
            return None
        digits.append((run, stride))
        line = rows[:, 0]
    return tuple(reversed(digits))
