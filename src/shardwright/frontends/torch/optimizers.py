"""Steps of PyTorch's optimizers as functions: of parameter, gradient, what is kept, and the learning rate.

Sources: the algorithms that the documentation of `torch.optim.SGD`, `Adam` and `AdamW` states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from shardwright.errors import ShardingError
from shardwright.words import kind_of

__all__ = ["STEP", "Optimizer", "optimizer_of"]

STEP = "step"
"""What counts the steps, from 0; one for all parameters."""

Kept = dict[str, Any]
Update = Callable[[Any, Any, Kept, Any, Any, Mapping[str, Any]], tuple[Any, Kept]]
"""From parameter, gradient, what is kept for it, learning rate, steps done before, and options: the new two."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer of PyTorch, and which parameters it changes.

    Attributes:
        own: The optimizer.
        group_of: The number of its group, by the names of parameters.
        numbers: The number by which its `state_dict` calls a parameter, by name.
        parameters: The parameters by name.
    """

    own: Any
    group_of: Mapping[str, int]
    numbers: Mapping[str, int]
    parameters: Mapping[str, Any]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Its groups: learning rates are read from these at each call."""
        groups: list[dict[str, Any]] = self.own.param_groups
        return groups

    @property
    def rate_names(self) -> list[str]:
        """What the learning rates are called, one for each group."""
        count = len(self.groups)
        return ["optimizer.lr"] if count == 1 else [f"optimizer.lr.{number}" for number in range(count)]

    @property
    def counts(self) -> bool:
        """Whether the steps are counted."""
        return any(_kind(self.own).counts(group) for group in self.groups)

    def kept_names(self, name: str) -> tuple[str, ...]:
        """What it keeps for a parameter, by the names in its state."""
        return _kind(self.own).kept(self.groups[self.group_of[name]])

    def kept(self, name: str) -> dict[str, Any]:
        """What it keeps for a parameter as it is now, zeros before the first step."""
        parameter = self.parameters[name]
        state = self.own.state.get(parameter, {})
        values = {key: state.get(key) for key in self.kept_names(name)}
        return {key: torch.zeros_like(parameter) if value is None else value for key, value in values.items()}

    def steps(self, names: list[str]) -> Any:
        """How many steps were done, a scalar.

        Raises:
            ShardingError: not as many for each parameter.
        """
        states = [self.own.state.get(self.parameters[name], {}) for name in names]
        # what counts no steps, SGD, has done some where it has kept anything
        done = {float(state.get(STEP, 1.0 if any(v is not None for v in state.values()) else 0.0)) for state in states}
        if len(done) > 1:
            raise ShardingError(
                "the optimizer has not done as many steps for each parameter",
                cause=f"it has done {', '.join(f'{count:.0f}' for count in sorted(done))}",
                remedy="make a new optimizer, or one for the parameters that have the same",
            )
        return torch.tensor(done.pop() if done else 0.0)

    def update(self, name: str, parameter: Any, gradient: Any, kept: Kept, rate: Any, steps: Any) -> tuple[Any, Kept]:
        """The parameter and what is kept for it after a step."""
        group = self.groups[self.group_of[name]]
        return _kind(self.own).update(parameter, gradient, kept, rate, steps, group)

    def state_dict(self, kept: Mapping[str, Kept], steps: Any) -> dict[str, Any]:
        """What its `load_state_dict` takes, from what is kept by the names of parameters."""
        state = {}
        for name, values in kept.items():
            counted = {STEP: steps.clone()} if _kind(self.own).has_step else {}
            state[self.numbers[name]] = {**counted, **values}
        return {"state": state, "param_groups": self.own.state_dict()["param_groups"]}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of optimizer: what it keeps, which options make it count its steps, and what a step does."""

    kept: Callable[[Mapping[str, Any]], tuple[str, ...]]
    counts: Callable[[Mapping[str, Any]], bool]
    update: Update
    has_step: bool


def optimizer_of(own: Any, module: Any) -> Optimizer:
    """The optimizer of a module.

    Raises:
        ShardingError: one of another kind than SGD, Adam and AdamW, or for parameters that are not the module's.
    """
    if not isinstance(own, torch.optim.Optimizer) or type(own) not in _KINDS:
        raise ShardingError(
            f"not an optimizer that can be part of a program: {type(own).__name__}",
            cause=f"it is {kind_of(own)}",
            remedy="give a torch.optim.SGD, Adam or AdamW; or none, and use the gradients that the program gives",
        )
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    group_of: dict[str, int] = {}
    for number, group in enumerate(own.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise ShardingError(
                    f"the optimizer has a parameter {list(parameter.shape)} that the module has not",
                    remedy="make it from the module's parameters: AdamW(module.parameters())",
                )
            group_of[names[id(parameter)]] = number
    parameters = dict(module.named_parameters())
    return Optimizer(own, group_of, {name: n for n, name in enumerate(group_of)}, {n: parameters[n] for n in group_of})


def _sgd_kept(group: Mapping[str, Any]) -> tuple[str, ...]:
    return ("momentum_buffer",) if group["momentum"] else ()


def _sgd_counts(group: Mapping[str, Any]) -> bool:
    return bool(group["momentum"] and group["dampening"])


def _sgd(
    parameter: Any, gradient: Any, kept: Kept, rate: Any, steps: Any, group: Mapping[str, Any]
) -> tuple[Any, Kept]:
    gradient = -gradient if group["maximize"] else gradient
    if group["weight_decay"]:
        gradient = gradient + group["weight_decay"] * parameter
    new: Kept = {}
    if group["momentum"]:
        buffer = group["momentum"] * kept["momentum_buffer"] + (1 - group["dampening"]) * gradient
        if group["dampening"]:
            buffer = torch.where(steps == 0, gradient, buffer)  # the first gradient is not dampened
        new = {"momentum_buffer": buffer}
        gradient = gradient + group["momentum"] * buffer if group["nesterov"] else buffer
    return parameter - (rate * gradient).to(parameter.dtype), new


def _adam_kept(group: Mapping[str, Any]) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))


def _adam(
    parameter: Any, gradient: Any, kept: Kept, rate: Any, steps: Any, group: Mapping[str, Any]
) -> tuple[Any, Kept]:
    first, second = group["betas"]
    gradient = -gradient if group["maximize"] else gradient
    if group["weight_decay"] and group.get("decoupled_weight_decay"):
        parameter = parameter * (1 - rate * group["weight_decay"]).to(parameter.dtype)
    elif group["weight_decay"]:
        gradient = gradient + group["weight_decay"] * parameter
    new = {
        "exp_avg": kept["exp_avg"] + (1 - first) * (gradient - kept["exp_avg"]),
        "exp_avg_sq": second * kept["exp_avg_sq"] + (1 - second) * gradient * gradient,
    }
    square = new["exp_avg_sq"]
    if group["amsgrad"]:
        square = new["max_exp_avg_sq"] = torch.maximum(kept["max_exp_avg_sq"], square)
    root = square.sqrt() / _missing(second, steps).sqrt().to(square.dtype) + group["eps"]
    return parameter - (rate / _missing(first, steps)).to(parameter.dtype) * new["exp_avg"] / root, new


def _missing(beta: float, steps: Any) -> Any:
    """`1 - beta ** (steps + 1)`, without the digits that the difference would lose."""
    return -torch.expm1((steps + 1) * math.log(beta)) if beta else torch.ones_like(steps)


_ADAM = _Kind(_adam_kept, lambda _: True, _adam, has_step=True)
_KINDS = {
    torch.optim.SGD: _Kind(_sgd_kept, _sgd_counts, _sgd, has_step=False),
    torch.optim.Adam: _ADAM,
    torch.optim.AdamW: _ADAM,
}


def _kind(own: Any) -> _Kind:
    return _KINDS[type(own)]
