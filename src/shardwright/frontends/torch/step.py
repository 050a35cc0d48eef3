"""A compiled PyTorch module: tensors in, tensors out, its parameters on the devices from call to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import torch

from shardwright.errors import ShardingError
from shardwright.frontends.diagnose import close_names
from shardwright.frontends.torch.exchange import to_jax, to_torch
from shardwright.frontends.torch.signature import Signature
from shardwright.frontends.torch.slots import Kind, Slot
from shardwright.frontends.torch.training import STEPS, kept_slot
from shardwright.runtime.compiled import Compiled
from shardwright.runtime.stepped import placed

__all__ = ["TorchStep"]


class TorchStep(Compiled):
    """A sharded module, or a training step of it; call it as the module, or as the loss without its first argument.

    Parameters, buffers and what the optimizer keeps are taken from the module when this is made, and stay on the
    devices: a training step replaces them there. The module itself is left alone; `state_dict` brings them back.

    Example:
        step = sw.from_torch(model, (x, y), train=loss, optimizer=adamw).shard(mesh, shardings).partition().compile()
        for x, y in batches:
            loss = step(x, y)
        model.load_state_dict(step.state_dict())
    """

    def __init__(self, compiled: Compiled, call: Signature) -> None:
        """Take over what was compiled, which takes arrays, and place the state of the module on its devices."""
        vars(self).update(vars(compiled))
        self._arrays = compiled
        self._signature = call
        self._state: dict[Slot, Any] = {}
        self._take({slot: to_jax(tensor) for slot, tensor in call.state.items()})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run once.

        Arguments:
            *args: As the module takes them; of a training step, as the loss takes them after the module.
            **kwargs: The same, by keyword.

        Returns:
            What the module returns; of a training step what the loss function returns; without an optimizer beside it
            the gradients by the names of parameters. Tensors are whole, on the first device of the mesh.

        Raises:
            ShardingError: arguments that are not those the program was made for.
        """
        call = self._signature
        results = self._arrays(*call.leaves(self._state, args, kwargs))
        for slot, array in zip(call.outputs, results, strict=True):
            if slot.kind.is_state:
                self._state[slot] = array
        return call.unflatten(
            [None if slot.kind.is_state else to_torch(a) for slot, a in zip(call.outputs, results, strict=True)]
        )

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers as they are now: copies, for `module.load_state_dict`."""
        held = {slot.name: array for slot, array in self._state.items() if slot.kind is not Kind.OPTIMIZER}
        tensors = {name: to_torch(array).clone() for name, array in held.items()}
        return {name: tensors[own] for name, own in self._signature.aliases.items() if own in tensors}

    def optimizer_state_dict(self) -> dict[str, Any]:
        """What the optimizer keeps, as it is now: copies, for its `load_state_dict`.

        Raises:
            ShardingError: the program has no optimizer.
        """
        optimizer = self._signature.optimizer
        if optimizer is None:
            raise ShardingError(
                f"the program of {self._signature.name} has no optimizer",
                remedy="make it with one: sw.from_torch(module, args, train=loss, optimizer=adamw)",
            )
        held = {slot: to_torch(array).clone() for slot, array in self._state.items() if slot.kind is Kind.OPTIMIZER}
        names = [slot.name for slot in self._signature.outputs if slot.kind is Kind.PARAMETER]
        kept = {name: {what: held[kept_slot(what, name)] for what in optimizer.kept_names(name)} for name in names}
        return optimizer.state_dict(kept, held.get(STEPS))

    def load_state_dict(self, tensors: Mapping[str, Any]) -> None:
        """Take parameters and buffers from a `state_dict`; what the optimizer keeps stays.

        Raises:
            ShardingError: a name that the program does not have, or another shape or element type.
        """
        slots = {slot.name: slot for slot in self._state if slot.kind is not Kind.OPTIMIZER}
        known = self._signature.aliases
        taken: dict[Slot, Any] = {}
        for name, tensor in tensors.items():
            slot = slots.get(known.get(name, name))
            if slot is None:
                raise ShardingError(
                    f"the program has no parameter or buffer {name!r}",
                    cause=f"it has {close_names(name, list(known))}",
                    remedy="give the state_dict of the module that it was made from",
                )
            _check_like(tensor, self._signature.state[slot], name)
            taken[slot] = to_jax(tensor)
        self._take(taken)

    def _take(self, arrays: Mapping[Slot, Any]) -> None:
        numbers = {slot: number for number, slot in enumerate(self._signature.inputs)}
        with jax.enable_x64(True):  # else 64 bits would become 32
            for slot, array in arrays.items():
                self._state[slot] = placed(array, self.in_shardings[numbers[slot]])


def _check_like(tensor: Any, own: Any, name: str) -> None:
    if not isinstance(tensor, torch.Tensor) or (tensor.shape, tensor.dtype) != (own.shape, own.dtype):
        given = f"{tensor.dtype}{list(tensor.shape)}" if isinstance(tensor, torch.Tensor) else repr(tensor)[:80]
        raise ShardingError(
            f"{name!r} cannot be {given}",
            cause=f"the program has {own.dtype}{list(own.shape)} there",
            remedy="give the state_dict of a module of the same sizes",
        )
