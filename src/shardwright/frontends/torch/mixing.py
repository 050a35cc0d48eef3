"""Plain tensors among DTensors: while a laid out module runs, what it makes itself is whole on every process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

__all__ = ["Mixing"]


class Mixing(TorchFunctionMode):  # type: ignore[misc]  # torch is not there for the type checker
    """Makes a DTensor of every plain tensor that meets one in a function of torch.

    Masks and positions that a module makes are the same on all processes, and DTensor refuses to mix them with its own.
    This is above autograd, so that gradients see DTensors as well, for which `implicit_replication` would have to be on
    while the user's `backward` runs.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call the function."""
        leaves, spec = pytree.tree_flatten((args, dict(kwargs or {})))
        device_mesh = next((leaf.device_mesh for leaf in leaves if isinstance(leaf, DTensor)), None)
        if device_mesh is not None:
            leaves = [_whole(leaf, device_mesh) for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return func(*args, **kwargs)


def _whole(leaf: Any, device_mesh: Any) -> Any:
    if not isinstance(leaf, torch.Tensor) or isinstance(leaf, DTensor):
        return leaf
    return DTensor.from_local(leaf, device_mesh, [Replicate()] * device_mesh.ndim, run_check=False)
