"""A training step as one graph: loss, gradients, and what the optimizer makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from shardwright.errors import ShardingError
from shardwright.frontends.torch.decompositions import table
from shardwright.frontends.torch.export import tracing
from shardwright.frontends.torch.joint import Functional
from shardwright.frontends.torch.optimizers import STEP, Optimizer
from shardwright.frontends.torch.slots import Kind, Slot

__all__ = ["STEPS", "kept_slot", "optimizer_state", "trained", "training_step"]

STEPS = Slot(Kind.OPTIMIZER, f"optimizer.{STEP}")
"""How many steps were done."""


def kept_slot(what: str, name: str) -> Slot:
    """What an optimizer keeps for a parameter: `optimizer.exp_avg.blocks.0.qkv.weight`."""
    return Slot(Kind.OPTIMIZER, f"optimizer.{what}.{name}")


def trained(joint: Functional, optimizer: Optimizer) -> list[str]:
    """The parameters that have a gradient and that the optimizer changes.

    Raises:
        ShardingError: there are none.
    """
    names = [slot.name for slot in joint.outputs if slot.kind is Kind.GRADIENT and slot.name in optimizer.group_of]
    if not names:
        raise ShardingError(
            "the optimizer changes no parameter that the loss depends on",
            remedy="make it from the parameters of the module: AdamW(module.parameters())",
        )
    return names


def optimizer_state(optimizer: Optimizer, names: list[str]) -> dict[Slot, Any]:
    """What the optimizer keeps for these parameters, by its slots."""
    counted = {STEPS: optimizer.steps(names)} if optimizer.counts else {}
    kept = {kept_slot(what, name): value for name in names for what, value in optimizer.kept(name).items()}
    return {**counted, **kept}


def training_step(joint: Functional, optimizer: Optimizer, state: dict[Slot, Any]) -> Functional:
    """The graph that gives new parameters and new state in place of gradients.

    Its arguments are those of the joint graph, the state in the order given, and a learning rate for each group.
    """
    names = trained(joint, optimizer)
    rates = [Slot(Kind.RATE, name) for name in optimizer.rate_names]
    inputs = (*joint.inputs, *state, *rates)
    kept_outputs = [slot for slot in joint.outputs if slot.kind is not Kind.GRADIENT]
    outputs = (*kept_outputs, *(Slot(Kind.PARAMETER, name) for name in names), *state)

    def step(*tensors: Any) -> tuple[Any, ...]:
        given = dict(zip(inputs, tensors, strict=True))
        results = torch.fx.Interpreter(joint.graph_module).run(*tensors[: len(joint.inputs)])
        found = list(zip(joint.outputs, results, strict=True))
        gradients = {slot.name: value for slot, value in found if slot.kind is Kind.GRADIENT}
        new = _updated(optimizer, names, given, gradients, [given[rate] for rate in rates])
        return (*(value for slot, value in found if slot.kind is not Kind.GRADIENT), *_in_order(new, names, state))

    like = [node.meta["val"] for node in joint.graph_module.graph.nodes if node.op == "placeholder"]
    like += [*state.values(), *(torch.zeros(()) for _ in rates)]
    with FakeTensorMode(), tracing(), preserve_node_meta(), torch.no_grad():
        fakes = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in like]
        graph_module = make_fx(step, decomposition_table=table())(*fakes)
    return Functional(graph_module, inputs, outputs)


def _updated(
    optimizer: Optimizer,
    names: Sequence[str],
    given: dict[Slot, Any],
    gradients: dict[str, Any],
    rates: list[Any],
) -> dict[Slot, Any]:
    """Everything that a step replaces, by its slot."""
    steps = given.get(STEPS)
    new: dict[Slot, Any] = {} if steps is None else {STEPS: steps + 1}
    for name in names:
        parameter = Slot(Kind.PARAMETER, name)
        kept = {what: given[kept_slot(what, name)] for what in optimizer.kept_names(name)}
        rate = rates[optimizer.group_of[name]]
        new[parameter], after = optimizer.update(name, given[parameter], gradients[name], kept, rate, steps)
        new |= {kept_slot(what, name): value for what, value in after.items()}
    return new


def _in_order(new: dict[Slot, Any], names: Sequence[str], state: dict[Slot, Any]) -> list[Any]:
    return [*(new[Slot(Kind.PARAMETER, name)] for name in names), *(new[slot] for slot in state)]
