"""How windows slide along the dimensions of pooling and of convolutions, as their attributes say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardwright.ir.signature import Signature

__all__ = ["Sliding", "pooling", "sliding"]


@dataclass(frozen=True, slots=True)
class Sliding:
    """The windows along one dimension, in elements.

    Attributes:
        size: Elements that a window takes.
        stride: How far the next window is.
        low: Padding in front of the dimension; less than 0 cuts off.
        high: Padding behind it.
        base: Every how many elements of the padded dimension one of the operand stands; 1 where they are neighbours.
        within: Every how many elements of the padded dimension a window takes one.
    """

    size: int
    stride: int
    low: int
    high: int
    base: int
    within: int

    @property
    def reach(self) -> int:
        """Elements of the padded dimension from the first of a window to its last."""
        return (self.size - 1) * self.within + 1

    @property
    def is_single(self) -> bool:
        """Whether windows are single elements taken one by one, without padding."""
        return self.size == self.stride == 1 and self.low == self.high == 0

    @property
    def is_plain(self) -> bool:
        """Whether there is a window for each element of the operand, and nothing else in it."""
        return self.is_single and self.base == 1

    @property
    def is_beside(self) -> bool:
        """Whether windows lie one behind the other, each in elements of its own, and there is no padding."""
        return self.low == self.high == 0 and self.size <= self.stride

    def turned(self, count: int) -> Sliding:
        """What the elements of `count` windows take, one after the other: each as many as there are windows."""
        return replace(self, size=count, stride=self.within, within=self.stride)

    def is_inside(self, rows: int, count: int) -> bool:
        """Whether so many windows take nothing but elements of an operand that has so many rows."""
        return self.base == 1 and self.low <= 0 and (count - 1) * self.stride + self.reach - self.low <= rows


def pooling(signature: Signature) -> tuple[Sliding, ...]:
    """How the windows of a `reduce_window` or a `select_and_scatter` slide along each dimension."""
    sizes = signature.get("window_dimensions") or (1,) * signature.operands[0].rank
    return sliding(signature, sizes, "base_dilations", "window_dilations")


def sliding(signature: Signature, sizes: Sequence[int], base: str, within: str) -> tuple[Sliding, ...]:
    """The windows along each dimension that an op slides them along.

    Arguments:
        signature: The op, with the attributes `window_strides` and `padding`.
        sizes: What a window takes along each dimension.
        base: The attribute that dilates the operand.
        within: The attribute that dilates windows.
    """
    rank = len(sizes)
    ones = (1,) * rank
    strides, bases, withins = (signature.get(name) or ones for name in ("window_strides", base, within))
    columns = zip(sizes, strides, _pairs(signature.get("padding"), rank), bases, withins, strict=True)
    return tuple(Sliding(size, stride, *pads, base, within) for size, stride, pads, base, within in columns)


def _pairs(padding: Any, rank: int) -> Sequence[tuple[int, int]]:
    """Padding in front and behind for each dimension, of which a splat gives one number."""
    return padding if isinstance(padding, tuple) and padding else ((padding or 0, padding or 0),) * rank
