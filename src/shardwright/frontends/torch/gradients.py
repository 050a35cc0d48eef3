"""Gradients that torch-mlir cannot write, writes wrongly or takes forever to, by ops that StableHLO has.

What windows read is added up position by position of the window: a slice with steps one way, zeros around and between
rows the other. So it goes for any strides, paddings, dilations and groups, and each part is an op that can be sharded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

__all__ = ["GRADIENTS"]

_aten = torch.ops.aten


def _unsliced(gradient: Any, sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    """The gradient of a slice: zeros around what comes in, and between its rows."""
    size = sizes[dim]
    start, end, _ = slice(start, end).indices(size)
    return _placed(gradient, dim % gradient.dim(), start, step, size)


def _unselected(gradient: Any, sizes: Any, dim: int, index: int) -> Any:
    """The gradient of one row: zeros around it."""
    return _placed(gradient.unsqueeze(dim), dim % len(sizes), index % sizes[dim], 1, sizes[dim])


def _unpooled(gradient: Any, source: Any, *options: Any) -> Any:
    """The gradient of a maximum over windows: what comes in is added where the maximum stood."""
    indices = options[-1]
    flat = torch.zeros_like(source).flatten(-2)
    return flat.scatter_add(-1, indices.flatten(-2), gradient.flatten(-2)).view(source.shape)


def _unaveraged(
    gradient: Any, source: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], *_: Any
) -> Any:
    """The gradient of a mean over windows: each gives its share to all that it covers; `pools` makes others of such."""
    share = gradient / math.prod(kernel)
    window = _Window(kernel, stride or kernel, padding, (1,) * len(kernel), source.shape[2:])
    return window.added([share] * math.prod(kernel))


def _convolution(
    gradient: Any,
    source: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    """Gradients of a convolution in source, weight and bias; of a flat one without groups torch-mlir has its own."""
    if groups == 1 and not transposed and weight.dim() <= 4:
        return NotImplemented
    small, large = (source, gradient) if transposed else (gradient, source)
    window = _Window(weight.shape[2:], stride, padding, dilation, large.shape[2:])
    of_source = of_weight = of_bias = None
    if wanted[0] and transposed:
        none = [0] * len(stride)
        of_source = _aten.convolution(gradient, weight, None, stride, padding, dilation, False, none, groups)
    elif wanted[0]:
        of_source = window.added([_spread(small, tap, groups) for tap in _taps(weight, groups)])
    if wanted[1]:
        parts = [_met(small, part, groups) for part in window.read(large, small.shape[2:])]
        of_weight = torch.stack(parts, -1).view(weight.shape)
    if wanted[2]:
        of_bias = gradient.sum([dim for dim in range(gradient.dim()) if dim != 1])
    return of_source, of_weight, of_bias


def _taps(weight: Any, groups: int) -> Iterator[Any]:
    """The weight at each position of the window, `[group, out, in]`."""
    flat = weight.flatten(2)
    for position in range(flat.shape[2]):
        yield flat[:, :, position].unflatten(0, (groups, -1))


def _by_group(image: Any, groups: int) -> Any:
    """An image as `[batch, group, channel of it, position]`."""
    return image.flatten(2).unflatten(1, (groups, -1))


def _spread(image: Any, tap: Any, groups: int) -> Any:
    """What an image gives to the positions that it was made of, by the weight at one position of the window."""
    product = torch.einsum("ngop,goi->ngip", _by_group(image, groups), tap)
    return product.flatten(1, 2).unflatten(-1, image.shape[2:])


def _met(image: Any, part: Any, groups: int) -> Any:
    """What the weight at one position of the window, `[out, in]`, has to do with an image and with what it read."""
    return torch.einsum("ngop,ngip->goi", _by_group(image, groups), _by_group(part, groups)).flatten(0, 1)


class _Window:
    """Where the positions of a window stand in an image of some sizes, for all steps that it takes."""

    def __init__(
        self,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        sizes: Sequence[int],
    ) -> None:
        rank = len(kernel)
        self._stride, self._padding = (list(v) * (rank if len(v) == 1 else 1) for v in (stride, padding))
        dilation = list(dilation) * (rank if len(dilation) == 1 else 1)
        self._offsets = [[tap * apart for tap in range(size)] for size, apart in zip(kernel, dilation, strict=True)]
        self._sizes = [size + 2 * pad for size, pad in zip(sizes, self._padding, strict=True)]

    def read(self, image: Any, counts: Sequence[int]) -> Iterator[Any]:
        """What each position of the window reads, in the order of the window's."""
        around = [pad for one in reversed(self._padding) for pad in (one, one)]
        padded = torch.nn.functional.pad(image, around) if any(around) else image
        for offsets in itertools.product(*self._offsets):
            part = padded
            for dim, (offset, step, count) in enumerate(zip(offsets, self._stride, counts, strict=True), 2):
                part = _aten.slice.Tensor(part, dim, offset, offset + step * (count - 1) + 1, step)
            yield part

    def added(self, parts: Sequence[Any]) -> Any:
        """The image to which each position of the window adds its part."""
        total = None
        for part, offsets in zip(parts, itertools.product(*self._offsets), strict=True):
            for dim, (offset, step, size) in enumerate(zip(offsets, self._stride, self._sizes, strict=True), 2):
                part = _placed(part, dim, offset, step, size)
            total = part if total is None else total + part
        for dim, (pad, size) in enumerate(zip(self._padding, self._sizes, strict=True), 2):
            total = _aten.slice.Tensor(total, dim, pad, size - pad, 1)
        return total


def _placed(rows: Any, dim: int, start: int, step: int, size: int) -> Any:
    """Rows at `start`, `start + step`, … of a dimension of a size, zeros elsewhere."""
    if step > 1:
        rows = _padded(rows.unsqueeze(dim + 1), dim + 1, 0, step - 1).flatten(dim, dim + 1)
        rows = _aten.slice.Tensor(rows, dim, 0, size - start, 1)
    return _padded(rows, dim, start, size - start - rows.shape[dim])


def _padded(rows: Any, dim: int, before: int, after: int) -> Any:
    return torch.nn.functional.pad(rows, [0, 0] * (rows.dim() - 1 - dim) + [before, after])


GRADIENTS = {
    _aten.max_pool2d_with_indices_backward.default: _unpooled,
    _aten.avg_pool2d_backward.default: _unaveraged,
    _aten.avg_pool3d_backward.default: _unaveraged,
    _aten.convolution_backward.default: _convolution,
    _aten.slice_backward.default: _unsliced,
    _aten.select_backward.default: _unselected,
}
"""Op → its decomposition, which may say that it has none by `NotImplemented`."""
