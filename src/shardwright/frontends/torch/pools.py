"""Maxima over windows of which the last may end behind the image, `ceil_mode`, by those that all end in it.

torch-mlir has half of what is missing in front of the image. Here all of it is behind, and less than any number.
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
    op: partial(_maximum, op, rank)
    for rank, ops in {
        1: (_aten.max_pool1d.default, _aten.max_pool1d_with_indices.default),
        2: (_aten.max_pool2d.default, _aten.max_pool2d_with_indices.default),
        3: (_aten.max_pool3d.default, _aten.max_pool3d_with_indices.default),
    }.items()
    for op in ops
}
"""Op → what it comes to; `NotImplemented` where all windows end in the image."""
