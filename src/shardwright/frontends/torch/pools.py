"""Maxima and means over windows of which the last may end behind the image, `ceil_mode`, by those that all end in it.

torch-mlir has half of what is missing in front of the image. Here all of it is behind, and less than any number, or 0.
Means of less than a window covers, or by another number, are made of those of all of it as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

__all__ = ["POOLS"]

_aten = torch.ops.aten


def _maximum(
    pool: Callable[..., Any],
    rank: int,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """What a pool over the last dimensions gives; where it tells places, those in the image as it was."""
    if not ceil_mode:
        return NotImplemented
    kernel, padding, dilation = (_each(one, rank) for one in (kernel, padding, dilation))
    stride = _each(stride, rank) if stride else kernel
    sizes = list(x.shape[-rank:])
    missing = [_missing(*window) for window in zip(sizes, kernel, stride, padding, dilation, strict=True)]
    behind = [pad for one in reversed(missing) for pad in (0, one)]
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    made = pool(torch.nn.functional.pad(x, behind, value=least), kernel, stride, padding, dilation)
    if isinstance(made, torch.Tensor):
        return made
    values, indices = made
    return values, _moved(indices, [size + one for size, one in zip(sizes, missing, strict=True)], sizes)


def _mean(
    pool: Callable[..., Any],
    rank: int,
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    """What a pool over the last dimensions gives: all that a window covers, over how much of that is counted."""
    kernel, padding = (_each(one, rank) for one in (kernel, padding))
    if not x.is_floating_point() or not (ceil_mode or divisor or (any(padding) and not count_include_pad)):
        return NotImplemented
    stride = _each(stride, rank) if stride else kernel
    windows = list(zip(x.shape[-rank:], kernel, stride, padding, strict=True))
    missing = [_missing(*window, 1) if ceil_mode else 0 for window in windows]
    around = [pad for one, more in zip(reversed(padding), reversed(missing), strict=True) for pad in (one, one + more)]
    covered = pool(torch.nn.functional.pad(x, around), kernel, stride) * math.prod(kernel)
    if divisor:
        return covered / divisor
    count = torch.ones((), dtype=x.dtype)
    for number, (size, reach, step, pad) in enumerate(windows):
        begins = [step * index - pad for index in range(covered.shape[number - rank])]
        low, high = (-pad, size + pad) if count_include_pad else (0, size)
        counts = [min(begin + reach, high) - max(begin, low) for begin in begins]
        count = count * torch.tensor(counts, dtype=x.dtype).view(-1, *[1] * (rank - 1 - number))
    return covered / count


def _each(values: Sequence[int], rank: int) -> list[int]:
    """One for each dimension, where one may stand for all."""
    return list(values) * (rank if len(values) == 1 else 1)


def _missing(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How far the last window ends behind the padding; it begins in the image, or in the padding in front of it."""
    reach = dilation * (kernel - 1) + 1
    steps = min(-(-(size + 2 * padding - reach) // stride), (size + padding - 1) // stride)
    return max(0, steps * stride + reach - size - 2 * padding)


def _moved(indices: Any, sizes: Sequence[int], own: Sequence[int]) -> Any:
    """Places in an image of some sizes as places in one that is a part of it."""
    rest, moved, rows = indices, torch.zeros_like(indices), 1
    for size, own_size in zip(reversed(sizes), reversed(own), strict=True):
        moved, rest = moved + rest % size * rows, rest // size
        rows *= own_size
    return moved


POOLS: dict[Any, Callable[..., Any]] = {
    _aten.max_pool1d.default: partial(_maximum, _aten.max_pool1d.default, 1),
    _aten.max_pool1d_with_indices.default: partial(_maximum, _aten.max_pool1d_with_indices.default, 1),
    _aten.max_pool2d.default: partial(_maximum, _aten.max_pool2d.default, 2),
    _aten.max_pool2d_with_indices.default: partial(_maximum, _aten.max_pool2d_with_indices.default, 2),
    _aten.max_pool3d.default: partial(_maximum, _aten.max_pool3d.default, 3),
    _aten.max_pool3d_with_indices.default: partial(_maximum, _aten.max_pool3d_with_indices.default, 3),
    _aten.avg_pool1d.default: partial(_mean, _aten.avg_pool1d.default, 1),
    _aten.avg_pool2d.default: partial(_mean, _aten.avg_pool2d.default, 2),
    _aten.avg_pool3d.default: partial(_mean, _aten.avg_pool3d.default, 3),
}
"""Op → what it comes to; `NotImplemented` where torch-mlir has it as it is."""
