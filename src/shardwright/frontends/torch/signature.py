"""What the arguments and results of a program made from a PyTorch module are, and how they belong to its caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from shardwright.errors import ShardingError
from shardwright.frontends.torch.arguments import Structure, described, in_order
from shardwright.frontends.torch.exchange import to_jax
from shardwright.frontends.torch.optimizers import Optimizer
from shardwright.frontends.torch.slots import Kind, Slot
from shardwright.ir.handles import unique_names

__all__ = ["Signature", "argument_names", "rate_of"]


@dataclass(frozen=True, slots=True)
class Signature:
    """How a module, or a training step of it, is called.

    Attributes:
        name: What it is called in diagnostics.
        inputs: What each argument of the program is.
        outputs: What each result of the program is.
        arguments: The structure of `(args, kwargs)`.
        returned: The structure of what comes back.
        examples: The tensors among the arguments that it was made with.
        state: Parameters, buffers and what the optimizer keeps, by their slots: the module's own tensors.
        aliases: Every name of a tensor in the module's `state_dict` → the name under which the program has it.
        optimizer: What makes the new parameters, and says the learning rates; `None` where gradients are results.
    """

    name: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    arguments: Structure
    returned: Structure
    examples: tuple[Any, ...]
    state: Mapping[Slot, Any]
    aliases: Mapping[str, str]
    optimizer: Optimizer | None = None

    def leaves(self, state: Mapping[Slot, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments of the program, in order, from its state and from the arguments of the module.

        Raises:
            ShardingError: another structure, shape or element type than the program was made for.
        """
        given = iter(self._given(args, kwargs))
        groups = iter(self.optimizer.groups if self.optimizer else ())
        leaves: list[Any] = []
        for slot in self.inputs:
            if slot.kind.is_state:
                leaves.append(state[slot])
            elif slot.kind is Kind.RATE:
                leaves.append(rate_of(next(groups)))
            else:
                leaves.append(next(given))
        return leaves

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        tensors = self.arguments.tensors((args, in_order(kwargs)), self.name)
        names = [slot.name for slot in self.inputs if slot.kind is Kind.INPUT]
        for name, tensor, example in zip(names, tensors, self.examples, strict=True):
            if not isinstance(tensor, torch.Tensor) or (tensor.shape, tensor.dtype) != (example.shape, example.dtype):
                raise ShardingError(
                    f"{self.name} is called with {described(tensor)} where it was made for {described(example)}",
                    op=f"argument {name}",
                    remedy="give the shape and element type it was made for, or make another program",
                )
        return [to_jax(tensor) for tensor in tensors]

    def unflatten(self, results: Sequence[Any]) -> Any:
        """What comes back, from the results of the program; what replaces its state is left out."""
        returned = [value for slot, value in zip(self.outputs, results, strict=True) if slot.kind is Kind.OUTPUT]
        tree = self.returned.tree(returned)
        gradients = {s.name: v for s, v in zip(self.outputs, results, strict=True) if s.kind is Kind.GRADIENT}
        return (tree, gradients) if gradients else tree


def argument_names(slots: Sequence[Slot]) -> list[str]:
    """What arguments or results are called, each differently."""
    names = [f"grad.{slot.name}" if slot.kind is Kind.GRADIENT else slot.name for slot in slots]
    return unique_names(names)


def rate_of(group: Mapping[str, Any]) -> Any:
    """The learning rate of an optimizer's group as it is now."""
    return np.asarray(float(group["lr"]), np.float32)
