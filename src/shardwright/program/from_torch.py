"""Programs from PyTorch modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shardwright.clock import Clock
from shardwright.program.program import Program

__all__ = ["from_torch"]


def from_torch(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: Callable[..., Any] | None = None,
) -> Program:
    """Trace a PyTorch module, called with `args` and `kwargs`, in the mode (`train`, `eval`) that it is in.

    Arguments of the program are called as in the module's `state_dict`, `blocks.0.attn.qkv.weight`, and by the
    parameters of its `forward`. What is tied is one argument. Buffers that the module writes are results as well. What
    is no tensor among the arguments is part of the program.

    Arguments:
        module: A `torch.nn.Module`; nothing is computed, and it is left as it is.
        args: Positional arguments of the module, as `torch.export` takes them; with `train`, those of the loss after
            the module.
        kwargs: Keyword arguments of the same.
        train: A function of the module and these arguments that returns the loss, or `(loss, what else is wanted)`. The
            program then gives, beside that, the gradient of each parameter, `grad.blocks.0.attn.qkv.weight`.

    Raises:
        ShardingError: torch or torch-mlir is missing, the module cannot be traced, it draws random numbers, or it has
            an op that StableHLO cannot say.

    Example:
        program = from_torch(model, (x, y), train=lambda model, x, y: cross_entropy(model(x), y))
    """
    from shardwright.frontends.torch.peers import torch_and_mlir

    clock = Clock()
    with clock.stage("load"):
        torch_and_mlir()
        from shardwright.frontends.torch.lower import lower

        source, call = lower(module, args, {} if kwargs is None else kwargs, train)
    return Program(source, call, clock)
