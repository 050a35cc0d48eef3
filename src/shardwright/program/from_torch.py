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
    optimizer: Any = None,
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
        optimizer: A `torch.optim.SGD`, `Adam` or `AdamW` of the module's parameters. The program then gives new
            parameters and new state of the optimizer in place of gradients. Learning rates, `optimizer.lr`, are
            arguments, and read from the optimizer at each call, so that schedulers work; its other options are part of
            the program.

    Raises:
        ShardingError: torch or torch-mlir is missing, the module cannot be traced, it draws random numbers, or it has
            an op that StableHLO cannot say, or the optimizer is of another kind.

    Example:
        loss = lambda model, x, y: cross_entropy(model(x), y)
        program = from_torch(model, (x, y), train=loss, optimizer=AdamW(model.parameters()))
    """
    from shardwright.frontends.torch.peers import torch_and_mlir

    clock = Clock()
    with clock.stage("load"):
        torch_and_mlir()
        from shardwright.frontends.torch.lower import lower

        source, call = lower(module, args, {} if kwargs is None else kwargs, train, optimizer)
    return Program(source, call, clock)
