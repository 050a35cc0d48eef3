"""One functional graph of a module: of its results, or of a loss and all gradients, by AOTAutograd."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_export_module
from torch._subclasses import FakeTensorMode
from torch.fx.traceback import preserve_node_meta

from shardwright.errors import ShardingError
from shardwright.frontends.torch.decompositions import table
from shardwright.frontends.torch.export import PREFIX, Exported, tracing
from shardwright.frontends.torch.slots import Kind, Slot

__all__ = ["Functional", "forward", "joint"]


@dataclass(frozen=True, slots=True)
class Functional:
    """A graph without side effects: tensors in, tensors out.

    Attributes:
        graph_module: One placeholder for each argument.
        inputs: What the arguments are.
        outputs: What the results are.
    """

    graph_module: Any
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]


class _Run(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """A graph, run node by node, so that what is traced of it remembers where its nodes came from."""

    def __init__(self, graph_module: Any) -> None:
        super().__init__()
        self.graph_module = graph_module

    def forward(self, *tensors: Any) -> Any:
        return torch.fx.Interpreter(self.graph_module).run(*tensors)


def forward(exported: Exported, tensors: Sequence[Any], names: Sequence[str], name: str) -> Functional:
    """The graph of a module's results."""
    with torch.no_grad():
        return _functional(exported, tensors, names, name)


def joint(exported: Exported, tensors: Sequence[Any], names: Sequence[str], name: str) -> Functional:
    """The graph of a loss, the first result, and of its gradients in the parameters that it depends on.

    Raises:
        ShardingError: a loss that is no floating-point scalar, or that depends on no parameter.
    """
    _freeze_unreached(exported.graph_module, tensors, name)
    return _functional(exported, tensors, names, name, trace_joint=True, output_loss_index=0)


def _functional(
    exported: Exported, tensors: Sequence[Any], names: Sequence[str], name: str, **options: Any
) -> Functional:
    try:
        with tracing(), preserve_node_meta():
            graph_module, signature = aot_export_module(
                _Run(exported.graph_module),
                tuple(tensors),
                decompositions=table(),
                **{"trace_joint": False, **options},
            )
    except Exception as error:  # what AOTAutograd cannot trace it says in many ways
        raise ShardingError(
            f"AOTAutograd cannot trace {name}",
            cause=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:400],
            remedy="make it a function of its tensors that writes to none of its arguments",
        ) from error
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    return Functional(graph_module, _inputs(signature, placeholders, names), _outputs(signature, graph_module))


def _inputs(signature: Any, placeholders: Sequence[str], names: Sequence[str]) -> tuple[Slot, ...]:
    users = dict(zip(signature.user_inputs, names, strict=True))
    slots = []
    for node in placeholders:
        if node in signature.inputs_to_parameters:
            slots.append(Slot(Kind.PARAMETER, own_name(signature.inputs_to_parameters[node])))
        elif node in signature.inputs_to_buffers:
            slots.append(Slot(Kind.BUFFER, own_name(signature.inputs_to_buffers[node])))
        else:
            slots.append(Slot(Kind.INPUT, users[node]))
    return tuple(slots)


def _outputs(signature: Any, graph_module: Any) -> tuple[Slot, ...]:
    """What each result is, by its place: one node may be several of them."""
    (output,) = (node for node in graph_module.graph.nodes if node.op == "output")
    mutated = [Slot(Kind.BUFFER, own_name(name)) for name in signature.buffers_to_mutate.values()]
    returned = [Slot(Kind.OUTPUT, f"result{number}") for number in range(len(signature.user_outputs))]
    backward = signature.backward_signature
    gradients = list(backward.gradients_to_parameters.values()) if backward else []
    slots = [*mutated, *returned, *(Slot(Kind.GRADIENT, own_name(name)) for name in gradients)]
    if len(slots) != len(output.args[0]):
        raise ShardingError(
            "the program writes to its arguments",
            cause=f"it has {len(output.args[0])} results, and {len(slots)} of them are returned, buffers or gradients",
            remedy="return what is new, and leave arguments as they are",
        )
    return tuple(slots)


def own_name(name: str) -> str:
    """The name of a parameter or buffer in the user's module."""
    return name.removeprefix("graph_module.").removeprefix(PREFIX)


def _freeze_unreached(graph_module: Any, tensors: Sequence[Any], name: str) -> None:
    """Make buffers of the parameters that a loss does not depend on: AOTAutograd wants a gradient of all others."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with tracing(), mode:
        fake = {key: _fake(mode, value) for key, value in graph_module.named_parameters()}
        buffers = {key: _fake(mode, value) for key, value in graph_module.named_buffers()}
        inputs = [_fake(mode, value) for value in tensors]
        results = torch.func.functional_call(graph_module, {**fake, **buffers}, tuple(inputs))
        loss = results[0] if results else None
        _check_loss(loss, name)
        wanted = {key: value for key, value in fake.items() if value.requires_grad}
        gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    reached = {key for key, gradient in zip(wanted, gradients, strict=True) if gradient is not None}
    if not reached:
        raise _no_parameter(name)
    for key, value in list(graph_module.named_parameters()):
        if key not in reached:
            owner, _, attribute = key.rpartition(".")
            holder = graph_module.get_submodule(owner)
            delattr(holder, attribute)
            holder.register_buffer(attribute, value.detach())


def _fake(mode: Any, value: Any) -> Any:
    return mode.from_tensor(value.detach()).requires_grad_(value.requires_grad)


def _check_loss(loss: Any, name: str) -> None:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.dim() or not loss.is_floating_point():
        what = f"{loss.dtype} of shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
        raise ShardingError(
            f"the loss of {name} is no floating-point scalar",
            cause=f"it is {what}",
            remedy="let the function return the loss, or (loss, what else is wanted)",
        )
    if not loss.requires_grad:
        raise _no_parameter(name)


def _no_parameter(name: str) -> ShardingError:
    return ShardingError(
        f"the loss of {name} depends on no parameter",
        cause="no parameter with requires_grad has a gradient",
        remedy="compute it from the module that the function is given, outside of torch.no_grad()",
    )
