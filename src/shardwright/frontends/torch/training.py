"""A training step as one graph: loss, gradients, and what the optimizer makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

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
    What an optimizer does is traced once for all parameters of a shape, and put in for each.
    """
    graph = joint.graph_module.graph
    rates = [Slot(Kind.RATE, name) for name in optimizer.rate_names]
    scalars = [torch.zeros(()) for _ in rates]
    given = dict(zip(joint.inputs, (node for node in graph.nodes if node.op == "placeholder"), strict=True))
    last = list(given.values())[-1]
    for slot, like in [*state.items(), *zip(rates, scalars, strict=True)]:
        with graph.inserting_after(last):
            last = given[slot] = graph.placeholder(f"state_{len(given)}")
            with FakeTensorMode():
                last.meta["val"] = torch.empty(like.shape, dtype=like.dtype)
    (output,) = (node for node in graph.nodes if node.op == "output")
    found = list(zip(joint.outputs, output.args[0], strict=True))
    gradients = {slot.name: node for slot, node in found if slot.kind is Kind.GRADIENT}
    kept = [(slot, node) for slot, node in found if slot.kind is not Kind.GRADIENT]
    with graph.inserting_before(output):
        new = _updated(graph, optimizer, given, gradients, [given[rate] for rate in rates])
    replaced = [(slot, new[slot]) for slot in [*(slot for slot in new if slot not in state), *state]]
    output.args = (tuple(node for _, node in (*kept, *replaced)),)
    joint.graph_module.recompile()
    return Functional(joint.graph_module, tuple(given), tuple(slot for slot, _ in (*kept, *replaced)))


def _updated(
    graph: Any, optimizer: Optimizer, given: dict[Slot, Any], gradients: dict[str, Any], rates: list[Any]
) -> dict[Slot, Any]:
    """Everything that a step replaces, by its slot."""
    steps = given.get(STEPS)
    new: dict[Slot, Any] = {}
    if steps is not None:
        (new[STEPS],) = _spliced(graph, _traced(lambda count: (count + 1,), [steps]), [steps])
    traces: dict[Any, Any] = {}
    for name, gradient in gradients.items():
        if name not in optimizer.group_of:
            continue
        slots = [Slot(Kind.PARAMETER, name), *(kept_slot(what, name) for what in optimizer.kept_names(name))]
        rate = rates[optimizer.group_of[name]]
        nodes = [gradient, rate, *([] if steps is None else [steps]), *(given[slot] for slot in slots)]
        key = optimizer.group_of[name], *((tuple(n.meta["val"].shape), n.meta["val"].dtype) for n in nodes)
        if key not in traces:
            traces[key] = _traced(_update(optimizer, name, steps is not None), nodes)
        new |= zip(slots, _spliced(graph, traces[key], nodes), strict=True)
    return new


def _update(optimizer: Optimizer, name: str, counts: bool) -> Callable[..., tuple[Any, ...]]:
    """The new parameter and what is kept, of gradient, rate, steps where these are counted, parameter and the kept."""
    names = optimizer.kept_names(name)

    def update(gradient: Any, rate: Any, *rest: Any) -> tuple[Any, ...]:
        steps, (parameter, *kept) = (rest[0], rest[1:]) if counts else (None, rest)
        of_name = dict(zip(names, kept, strict=True))
        new, after = optimizer.update(name, parameter, gradient, of_name, rate, steps)
        return (new, *(after[what] for what in names))

    return update


def _traced(fn: Callable[..., tuple[Any, ...]], nodes: Sequence[Any]) -> Any:
    with FakeTensorMode(), tracing(), torch.no_grad():
        like = [torch.empty(node.meta["val"].shape, dtype=node.meta["val"].dtype) for node in nodes]
        return make_fx(fn, decomposition_table=table())(*like).graph


def _spliced(graph: Any, traced: Any, nodes: Sequence[Any]) -> tuple[Any, ...]:
    """A trace put into a graph where that inserts, on these operands: the nodes of its results."""
    places = dict(zip((node for node in traced.nodes if node.op == "placeholder"), nodes, strict=True))
    results: tuple[Any, ...] = graph.graph_copy(traced, places)
    return results
