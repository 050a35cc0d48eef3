"""Which ops of ATen are taken apart while a graph is traced, until torch-mlir knows all that is left."""

from __future__ import annotations

from collections.abc import Callable
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
    _aten.diagonal_backward,
    _aten.norm,
)
"""Ops of losses and gradients that torch-mlir has no StableHLO for."""


def table() -> dict[Any, Callable[..., Any]]:
    """The union of core ATen's decompositions, torch-mlir's, and those of gradients.

    What torch-mlir asks to be left alone is left alone, unless a gradient needs it taken apart.
    """
    own = get_decomposition_table()
    core = {op: rule for op, rule in core_aten_decompositions().items() if op in own}
    return {**core, **own, **get_decompositions(_BACKWARD), **GRADIENTS}
