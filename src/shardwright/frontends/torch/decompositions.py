"""Which ops of ATen are taken apart while a graph is traced, until torch-mlir knows all that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch_mlir.extras.fx_decomp_util import get_decomposition_table

from shardwright.frontends.torch.gradients import GRADIENTS

__all__ = ["table"]

_aten = torch.ops.aten

_BACKWARD = (
    _aten.embedding_dense_backward,
    _aten.nll_loss_forward,
    _aten.nll_loss_backward,
    _aten.nll_loss2d_forward,
    _aten.nll_loss2d_backward,
    _aten._log_softmax,
    _aten._log_softmax_backward_data,
    _aten._softmax,
    _aten._softmax_backward_data,
    _aten.gelu_backward,
    _aten.silu_backward,
    _aten.tanh_backward,
    _aten.sigmoid_backward,
    _aten.threshold_backward,
    _aten.hardtanh_backward,
    _aten.hardswish_backward,
    _aten.leaky_relu_backward,
    _aten.elu_backward,
    _aten.softplus_backward,
    _aten.mse_loss,
    _aten.mse_loss_backward,
    _aten.smooth_l1_loss_backward,
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten.native_group_norm,
    _aten.native_group_norm_backward,
    _aten.native_batch_norm,
    _aten.native_batch_norm_backward,
    _aten._native_batch_norm_legit_functional,
    _aten._fused_rms_norm,
    _aten._fused_rms_norm_backward,
    _aten.unfold_backward,
    _aten.norm,
    _aten.addmv,
    _aten.addr,
)
"""Ops of losses and gradients, and products, that torch-mlir has no StableHLO for."""


_LEFT = (
    _aten.__lshift__.Scalar,
    _aten.__lshift__.Tensor,
    _aten.bitwise_left_shift.Tensor_Scalar,
    _aten.bitwise_left_shift.Scalar_Tensor,
)
_RIGHT = (
    _aten.__rshift__.Scalar,
    _aten.__rshift__.Tensor,
    _aten.bitwise_right_shift.Tensor_Scalar,
    _aten.bitwise_right_shift.Scalar_Tensor,
)


def _remainder(x: Any, y: Any) -> Any:
    """What is left of a division that is rounded down, from what is left of one that is rounded to zero."""
    x = x if isinstance(x, torch.Tensor) else torch.full_like(y, x)
    left = torch.fmod(x, y)
    return torch.where((left != 0) & ((left < 0) != (y < 0)), left + y, left)


def _shifted(shift: Callable[..., Any], x: Any, count: Any) -> Any:
    """Bits moved on, where either side may be a number."""
    like = x if isinstance(x, torch.Tensor) else count
    if like.is_floating_point():
        return NotImplemented
    return shift(*(v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in (x, count)))


def _shifted_alike(shift: Callable[..., Any], x: Any, count: Any) -> Any:
    """Bits moved on, both sides of one type and shape; torch-mlir takes the first bit of a byte for its sign."""
    type_ = torch.result_type(x, count)
    wide = torch.int32 if type_ == torch.uint8 else type_
    if x.dtype == count.dtype == wide and x.shape == count.shape:
        return NotImplemented
    return shift(*torch.broadcast_tensors(x.to(wide), count.to(wide))).to(type_)


def _diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """What stands on a diagonal: sums of rows of which nothing else is left."""
    last = x.movedim((dim1, dim2), (-2, -1))
    begin, count = _on_diagonal(last.shape, offset)
    alone = torch.where(_is_on_diagonal(last.shape, offset), last, torch.zeros((), dtype=x.dtype))
    return alone.sum(-1, dtype=x.dtype).narrow(-1, begin, count)


def _undiagonal(gradient: Any, sizes: Sequence[int], offset: int, dim1: int, dim2: int) -> Any:
    """The gradient of a diagonal: zeros beside it."""
    shape = [size for dim, size in enumerate(sizes) if dim not in (dim1 % len(sizes), dim2 % len(sizes))]
    shape += [sizes[dim1], sizes[dim2]]
    begin, count = _on_diagonal(shape, offset)
    rows = torch.nn.functional.pad(gradient, (begin, shape[-2] - begin - count)).unsqueeze(-1)
    alone = torch.where(_is_on_diagonal(shape, offset), rows, torch.zeros((), dtype=gradient.dtype))
    return alone.movedim((-2, -1), (dim1, dim2))


def _on_diagonal(shape: Sequence[int], offset: int) -> tuple[int, int]:
    """The first row of a diagonal, and how many it has."""
    begin = max(-offset, 0)
    return begin, max(0, min(shape[-2] - begin, shape[-1] - max(offset, 0)))


def _is_on_diagonal(shape: Sequence[int], offset: int) -> Any:
    return torch.arange(shape[-2]).unsqueeze(-1) + offset == torch.arange(shape[-1])


_OWN = {
    _aten.diagonal.default: _diagonal,
    _aten.diagonal_backward.default: _undiagonal,
    _aten.remainder.Scalar: _remainder,
    _aten.remainder.Scalar_Tensor: _remainder,
    _aten.remainder.Tensor: _remainder,
    _aten.bitwise_left_shift.Tensor: partial(_shifted_alike, _aten.bitwise_left_shift.Tensor),
    _aten.bitwise_right_shift.Tensor: partial(_shifted_alike, _aten.bitwise_right_shift.Tensor),
    **{op: partial(_shifted, _aten.bitwise_left_shift.Tensor) for op in _LEFT},
    **{op: partial(_shifted, _aten.bitwise_right_shift.Tensor) for op in _RIGHT},
}
"""Ops that torch-mlir has no StableHLO for, or writes as others than they are."""


def table() -> dict[Any, Callable[..., Any]]:
    """The union of core ATen's decompositions, torch-mlir's, and those of gradients.

    What torch-mlir asks to be left alone is left alone, unless a gradient needs it taken apart.
    """
    own = get_decomposition_table()
    core = {op: rule for op, rule in core_aten_decompositions().items() if op in own}
    return {**core, **own, **get_decompositions(_BACKWARD), **GRADIENTS, **_OWN}
