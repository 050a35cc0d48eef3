"""What functions of torch get while a laid out module runs: plain tensors as DTensors, and parameters gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from shardwright.errors import ShardingError
from shardwright.frontends.torch.places import place_of_call

__all__ = ["Mixing"]

_OF_ATTRIBUTES = ("__get__", "__set__")
"""Functions that say what a tensor is, `x.shape` and `x.grad`."""

_CONVOLUTIONS = {
    torch.conv1d: 3,
    torch.conv2d: 4,
    torch.conv3d: 5,
    torch.conv_transpose1d: 3,
    torch.conv_transpose2d: 4,
    torch.conv_transpose3d: 5,
}
"""Convolutions, and how many dimensions an input has that is a batch.

DTensor's rule does not look at how their weights lie: a part of the channels is then taken for all of them.
"""


class Mixing(TorchFunctionMode):  # type: ignore[misc]  # torch is not there for the type checker
    """Makes a DTensor of every plain tensor that meets one, and gathers parameters where they are used.

    Masks and positions that a module makes are the same on all processes, and DTensor refuses to mix them with its own.
    Parameters are gathered along the axes that the batch is split over, as FSDP does: else DTensor, which looks at one
    op at a time, often gathers the batch.

    This is above autograd, so that gradients see DTensors as well, for which `implicit_replication` would have to be on
    while the user's `backward` runs, and so that those of parameters are added up into their own shards.
    """

    def __init__(self, batch_dims: Set[int]) -> None:
        """Gather along these dimensions of the device mesh."""
        super().__init__()
        self._batch_dims = batch_dims

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function.

        Raises:
            ShardingError: DTensor has no rule for it, or none for how its operands lie.
        """
        leaves, spec = pytree.tree_flatten((args, dict(kwargs or {})))
        device_mesh = next((leaf.device_mesh for leaf in leaves if isinstance(leaf, DTensor)), None)
        if device_mesh is not None and getattr(func, "__name__", "") not in _OF_ATTRIBUTES:
            leaves = [self._for_use(_whole(leaf, device_mesh)) for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        if (rank := _CONVOLUTIONS.get(func)) is not None:
            args = tuple(_for_convolution(one, rank if number == 0 else None) for number, one in enumerate(args))
            kwargs = {name: _for_convolution(one, rank if name == "input" else None) for name, one in kwargs.items()}
        try:
            return func(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if device_mesh is None or not _is_of_dtensor(error):
                raise
            raise _refused(func, args, kwargs, error) from error

    def _for_use(self, leaf: Any) -> Any:
        if not isinstance(leaf, DTensor) or not isinstance(leaf, torch.nn.Parameter):
            return leaf
        used = [Replicate() if dim in self._batch_dims else one for dim, one in enumerate(leaf.placements)]
        return leaf.redistribute(placements=used)


def _for_convolution(operand: Any, batched: int | None) -> Any:
    """An operand of a convolution, split along the batch alone, which it has if it has `batched` dimensions."""
    if not isinstance(operand, DTensor):
        return operand
    has_batch = operand.ndim == batched
    batch = [one if has_batch and one.is_shard(0) else Replicate() for one in operand.placements]
    return operand.redistribute(placements=batch)


def _is_of_dtensor(error: Exception) -> bool:
    return isinstance(error, NotImplementedError) or "Sharding propagation failed" in str(error)


def _refused(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception
) -> ShardingError:
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, DTensor)]
    lie = ", ".join(f"{list(one.shape)} {list(one.placements)}" for one in tensors[:4])
    return ShardingError(
        f"DTensor cannot run {getattr(func, '__name__', func)} of {lie}",
        location=place_of_call(),
        cause=str(error).partition("\n")[0],
        remedy="let what leads there lie otherwise in the plan, or compile the plan itself: plan.partition().compile()",
    )


def _whole(leaf: Any, device_mesh: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or isinstance(leaf, DTensor):
        return leaf
    return DTensor.from_local(leaf, device_mesh, [Replicate()] * device_mesh.ndim, run_check=False)
