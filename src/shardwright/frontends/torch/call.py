"""How a program made from a PyTorch module is called, for those who run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardwright.frontends.torch.exchange import to_jax
from shardwright.frontends.torch.signature import Signature, argument_names, rate_of
from shardwright.frontends.torch.slots import Kind
from shardwright.frontends.torch.step import TorchStep
from shardwright.mesh import Mesh
from shardwright.runtime.compiled import Compiled

__all__ = ["TorchCall"]


class TorchCall(Signature):
    """A `shardwright.runtime.call.Call` of a module, or of a training step of it."""

    __slots__ = ()

    def among(self, devices: tuple[Any, ...]) -> TorchCall:
        """Itself: it is for no devices in particular."""
        return self

    @property
    def argument_numbers(self) -> None:
        """None: parameters stand beside the arguments, so shardings go by name."""

    @property
    def result_numbers(self) -> None:
        """None: as of the arguments."""

    def on(self, mesh: Mesh) -> tuple[Any, ...] | None:
        """No devices in particular: torch's own are not those that the program runs on."""
        return None

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the program from those of the module, with its parameters as they are now.

        Raises:
            ShardingError: another structure, shape or element type than the program was made for.
        """
        state = {slot: to_jax(tensor) for slot, tensor in self.state.items()}
        return self.leaves(state, args, kwargs)

    def given(self) -> dict[str, Any]:
        """What the program was made with, as arrays by the names of its arguments, parameters as they are now.

        Without what has no numbers, on torch's meta device.
        """
        examples = iter(self.examples)
        groups = iter(self.optimizer.groups if self.optimizer else ())
        arrays: dict[str, Any] = {}
        for slot, name in zip(self.inputs, argument_names(self.inputs), strict=True):
            if slot.kind is Kind.RATE:
                arrays[name] = rate_of(next(groups))
                continue
            tensor = self.state[slot] if slot.kind.is_state else next(examples)
            if not tensor.is_meta:
                arrays[name] = np.asarray(to_jax(tensor))
        return arrays

    def in_shardings(self, shardings: Sequence[Any]) -> tuple[Any, ...]:
        """One sharding for each argument of the program."""
        return tuple(shardings)

    def out_shardings(self, shardings: Sequence[Any]) -> Any:
        """The shardings of what comes back, in its structure."""
        return self.unflatten(shardings)

    def bound(self, compiled: Compiled) -> TorchStep:
        """The compiled program with the state of the module on its devices."""
        return TorchStep(compiled, self)
