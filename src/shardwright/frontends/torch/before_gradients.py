"""Ops of a module that torch-mlir has no StableHLO for, by ops that it has.

They are taken apart before gradients are taken, so that theirs are made of the same ops; what `decompositions` has is
taken apart while they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

from shardwright.frontends.torch.pools import POOLS

__all__ = ["apart"]

_aten = torch.ops.aten
_SUM, _MEAN = 0, 1
"""The modes of bags that are added up; that of maxima is left alone."""


def apart(node: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """What an op comes to, by other ops; `NotImplemented` where it is left as it is.

    Arguments:
        node: Of the exported graph, the call.
        args: What it is called with, as of the op's schema.
        options: The same by name.
    """
    if node.target in _BAGS:
        return _bags(node, *args, **options)
    rule = _APART.get(node.target)
    return NotImplemented if rule is None else rule(*args, **options)


def _bags(
    node: Any,
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_by_frequency: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    weights: Any = None,
    include_last_offset: bool = False,
    padding: int | None = None,
) -> Any:
    """Rows of a table, added up by bag; where all bags are of one size, along a dimension of their own."""
    del sparse  # how gradients are stored
    if scale_by_frequency or mode not in (_SUM, _MEAN) or include_last_offset:
        return NotImplemented
    rows, count = weight[indices], torch.ones_like(indices, dtype=weight.dtype)
    if padding is not None and padding >= 0:
        count = (indices != padding).to(weight.dtype)
        rows = rows * count[:, None]
    if weights is not None:
        rows = rows * weights[:, None]
    added = _added(rows, offsets, _size(node.args[2]))
    if mode == _MEAN:
        added = added / _added(count[:, None], offsets, _size(node.args[2])).clamp(min=1)
    return added, *[offsets.new_zeros(0)] * 3  # of interest to gradients only


def _size(offsets: Any) -> int:
    """The size of all bags, where offsets are a range with steps; 0 where that is not known."""
    is_range = getattr(offsets, "target", None) is _aten.arange.start_step
    return int(offsets.args[2]) if is_range and len(offsets.args) > 2 else 0


def _added(rows: Any, offsets: Any, size: int) -> Any:
    if size:
        return rows.view(-1, size, rows.shape[1]).sum(1)
    begins = torch.zeros(rows.shape[0] + 1, dtype=offsets.dtype).index_add(0, offsets, torch.ones_like(offsets))
    return rows.new_zeros(offsets.shape[0], rows.shape[1]).index_add(0, begins[:-1].cumsum(0) - 1, rows)


def _distances(one: Any, other: Any, p: float = 2.0, mode: int | None = None) -> Any:
    """Distances of all pairs of rows; at 0 they have the gradient 0, as torch has it."""
    del mode  # whether by a product
    apart = (one.unsqueeze(-2) - other.unsqueeze(-3)).abs()
    if p == 1:
        return apart.sum(-1)
    if math.isinf(p):
        return apart.amax(-1)
    if p == 0:
        return (apart != 0).to(apart.dtype).sum(-1)
    total = (apart**p).sum(-1)
    return torch.where(total > 0, torch.where(total > 0, total, 1.0) ** (1 / p), 0.0)


def _products(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """Products of all up to each position: of two, of four, of eight …"""
    made = (x if dtype is None else x.to(dtype)).movedim(dim, 0)
    count, reach = made.shape[0], 1
    while reach < count:
        made = torch.cat([made[:reach], made[reach:] * made[: count - reach]])
        reach *= 2
    return made.movedim(0, dim)


def _scattered(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Sums and means of what is scattered to the same place."""
    if reduce not in ("sum", "mean") or (reduce == "mean" and not x.is_floating_point()):
        return NotImplemented
    source = source[tuple(slice(size) for size in index.shape)]
    met = torch.zeros_like(x).scatter_add(dim, index, torch.ones_like(index, dtype=x.dtype))
    start = x if include_self else torch.where(met > 0, torch.zeros((), dtype=x.dtype), x)
    total = start.scatter_add(dim, index, source)
    if reduce == "sum":
        return total
    return total / (met + 1 if include_self else met.clamp(min=1))


def _scattered_sums(x: Any, dim: int, index: Any, source: Any, *, reduce: str) -> Any:
    return x.scatter_add(dim, index, source) if reduce == "add" else NotImplemented


def _windows(x: Any, dim: int, size: int, step: int) -> Any:
    """Windows along a dimension, which become the last."""
    if not x.dim():
        return NotImplemented
    dim %= x.dim()
    begins = torch.arange((x.shape[dim] - size) // step + 1).unsqueeze(1) * step
    places = (begins + torch.arange(size)).flatten()
    return x.index_select(dim, places).unflatten(dim, (-1, size)).movedim(dim + 1, -1)


def _sorted(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    del stable  # as all are
    return x.sort(dim, descending)


def _order(x: Any, *, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    del stable  # as all are
    return x.argsort(dim, descending)


def _places(
    rows: Any, values: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    """How many of a sorted row come before a value: where it would stand."""
    rows = rows if sorter is None else rows.gather(-1, sorter)
    if isinstance(values, torch.Tensor) and values.dim():
        rows, values = rows.unsqueeze(-2), values.unsqueeze(-1)
    is_behind = rows > values if right or side == "right" else rows >= values
    return is_behind.logical_not().sum(-1, dtype=torch.int32 if out_int32 else torch.int64)  # NaN is behind all


def _buckets(values: Any, rows: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _places(rows, values, out_int32=out_int32, right=right)


def _median(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    return _ranked(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def _ranked(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest along a dimension, and where it stands."""
    values, indices = x.sort(dim)
    values, indices = (one.narrow(dim, k - 1, 1) for one in (values, indices))
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


def _hypotenuse(x: Any, y: Any) -> Any:
    return (x * x + y * y).sqrt()


def _adaptive_maximum(x: Any, sizes: Sequence[int]) -> Any:
    kernel = _evenly(x, sizes)
    return NotImplemented if kernel is None else _aten.max_pool2d_with_indices(x, kernel, kernel)


def _adaptive_mean(x: Any, sizes: Sequence[int]) -> Any:
    kernel = _evenly(x, sizes)
    return NotImplemented if kernel is None else torch.nn.functional.avg_pool2d(x, kernel, kernel)


def _evenly(x: Any, sizes: Sequence[int]) -> list[int] | None:
    """Windows that divide an image evenly, where there are any."""
    pairs = list(zip(x.shape[-2:], sizes, strict=True))
    return None if any(have % want for have, want in pairs) else [have // want for have, want in pairs]


def _rolled(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    """Elements moved on through all of a tensor; along dimensions torch-mlir knows."""
    return NotImplemented if dims else x.flatten().roll(shifts, 0).view(x.shape)


def _padded(x: Any, pads: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """A tensor that goes on from its other end; where pads are below 0 it is cut first."""
    if mode != "circular":
        return NotImplemented
    del value  # of what is constant
    for number, (before, behind) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        dim = x.dim() - 1 - number
        size = x.shape[dim] + min(0, before) + min(0, behind)
        x = x.narrow(dim, max(0, -before), size)
        front = [x.narrow(dim, size - before, before)] if before > 0 else []
        x = torch.cat([*front, x, *([x.narrow(dim, 0, behind)] if behind > 0 else [])], dim)
    return x


def _sampled(image: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Any:
    """An image, read between its pixels."""
    if image.dim() != 4:
        return NotImplemented
    return decomposition_table[_aten.grid_sampler_2d.default](image, grid, mode, padding, align_corners)


_BAGS = (_aten.embedding_bag.default, _aten.embedding_bag.padding_idx)

_APART: dict[Any, Callable[..., Any]] = {
    _aten.adaptive_avg_pool2d.default: _adaptive_mean,
    _aten.adaptive_max_pool2d.default: _adaptive_maximum,
    _aten.argsort.stable: _order,
    _aten.bucketize.Scalar: _buckets,
    _aten.bucketize.Tensor: _buckets,
    _aten.cdist.default: _distances,
    _aten.cumprod.default: _products,
    _aten.grid_sampler.default: _sampled,
    _aten.hypot.default: _hypotenuse,
    _aten.kthvalue.default: _ranked,
    _aten.median.dim: _median,
    _aten.pad.default: _padded,
    _aten.roll.default: _rolled,
    _aten.scatter.reduce: _scattered_sums,
    _aten.scatter_reduce.two: _scattered,
    _aten.searchsorted.Scalar: _places,
    _aten.searchsorted.Tensor: _places,
    _aten.sort.stable: _sorted,
    _aten.unfold.default: _windows,
    **POOLS,
}
