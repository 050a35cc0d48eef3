"""One functional graph of a module: of its results, or of a loss and all gradients, by AOTAutograd."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch._aot_autograd.descriptors import (
    BufferAOTInput,
    ForwardTokenAOTInput,
    GradAOTOutput,
    InputMutationAOTOutput,
    ParamAOTInput,
    PlainAOTInput,
    PlainAOTOutput,
    TangentAOTInput,
)
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors, aot_export_module
from torch._subclasses import FakeTensorMode
from torch.fx.traceback import preserve_node_meta

from shardwright.errors import ShardingError
from shardwright.frontends.torch.before_gradients import apart
from shardwright.frontends.torch.decompositions import table
from shardwright.frontends.torch.export import PREFIX, Exported, tracing
from shardwright.frontends.torch.slots import Kind, Slot
from shardwright.frontends.torch.untraceable import untraceable

__all__ = ["Functional", "forward", "joint", "own_name"]

_NEW = "make it a function of its tensors that writes to none of its arguments"


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
    """A graph, run node by node, so that what is traced of it remembers where its nodes came from.

    Of a training step only the first result, the loss, has gradients.
    """

    def __init__(self, graph_module: Any, only_loss: bool = False) -> None:
        super().__init__()
        self.graph_module = graph_module
        self._only_loss = only_loss

    def forward(self, *tensors: Any) -> Any:
        results = _Interpreter(self.graph_module).run(*tensors)
        if not self._only_loss:
            return results
        loss, *others = results
        return (loss, *(other.detach() for other in others))


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # torch is not there for the type checker
    """Runs a graph, with ops taken apart that torch-mlir does not know."""

    def run_node(self, node: Any) -> Any:
        if node.op == "call_function":
            with self._set_current_node(node):
                args, options = self.fetch_args_kwargs_from_env(node)
                result = apart(node, args, options)
            if result is not NotImplemented:
                return result
        return super().run_node(node)


def forward(exported: Exported, tensors: Sequence[Any], names: Sequence[str], name: str) -> Functional:
    """The graph of a module's results."""
    try:
        with torch.no_grad(), tracing(), preserve_node_meta():
            graph_module, signature = aot_export_module(
                _Run(exported.graph_module), tuple(tensors), decompositions=table(), trace_joint=False
            )
    except Exception as error:  # what AOTAutograd cannot trace it says in many ways
        raise untraceable("AOTAutograd", name, error, _NEW) from error
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    return Functional(graph_module, _inputs(signature, placeholders, names), _outputs(signature, graph_module))


def joint(exported: Exported, tensors: Sequence[Any], names: Sequence[str], name: str) -> Functional:
    """The graph of a loss, the first result, and of its gradients in the parameters that it depends on.

    Raises:
        ShardingError: a loss that is no floating-point scalar, or that depends on no parameter.
    """
    try:
        _freeze_unreached(exported.graph_module, tensors, name)
        with ExitStack() as stack, tracing(), preserve_node_meta():
            run = _Run(exported.graph_module, only_loss=True)
            # of its other form, aot_export_module, joint graphs have forgotten where their nodes came from
            found = aot_export_joint_with_descriptors(stack, run, tuple(tensors), decompositions=table())
    except ShardingError:
        raise
    except Exception as error:
        raise untraceable("AOTAutograd", name, error, _NEW) from error
    return _described(found.graph_module, names)


def _described(graph_module: Any, names: Sequence[str]) -> Functional:
    """A joint graph whose placeholders and results say what they are; the gradient of the loss in itself is 1."""
    graph = graph_module.graph
    inputs: list[Slot] = []
    for node in [node for node in graph.nodes if node.op == "placeholder"]:
        about = node.meta["desc"]
        if isinstance(about, TangentAOTInput):
            _as_one(graph, node)
        else:
            inputs.append(_slot_of(about, names))
    (output,) = (node for node in graph.nodes if node.op == "output")
    pairs = zip(output.args[0], output.meta["desc"], strict=True)
    results = [(node, _result_slot(about, names)) for node, about in pairs if node is not None]
    output.args = (tuple(node for node, _ in results),)
    graph_module.recompile()
    return Functional(graph_module, tuple(inputs), tuple(slot for _, slot in results))


def _as_one(graph: Any, tangent: Any) -> None:
    value = tangent.meta["val"]
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        one = graph.call_function(torch.ops.aten.full.default, ([], 1.0), {"dtype": value.dtype})
    one.meta = {"val": value}
    tangent.replace_all_uses_with(one)
    graph.erase_node(tangent)


def _slot_of(about: Any, names: Sequence[str]) -> Slot:
    if isinstance(about, ParamAOTInput):
        return Slot(Kind.PARAMETER, own_name(about.target))
    if isinstance(about, BufferAOTInput):
        return Slot(Kind.BUFFER, own_name(about.target))
    if isinstance(about, PlainAOTInput):
        return Slot(Kind.INPUT, names[about.idx])
    raise _unknown(about)


def _result_slot(about: Any, names: Sequence[str]) -> Slot:
    if isinstance(about, PlainAOTOutput):
        return Slot(Kind.OUTPUT, f"result{about.idx}")
    if isinstance(about, GradAOTOutput):
        return Slot(Kind.GRADIENT, _slot_of(about.grad_of, names).name)
    if isinstance(about, InputMutationAOTOutput) and isinstance(about.mutated_input, BufferAOTInput):
        return _slot_of(about.mutated_input, names)
    raise _unknown(about)


def _written(parameter: str) -> ShardingError:
    """That a parameter is written to, or else an argument."""
    if parameter:
        return ShardingError(
            f"the program writes to the parameter {parameter}",
            cause="what a module writes to is carried from call to call if it is a buffer",
            remedy="leave parameters to optimizers, or make a buffer of it, by register_buffer",
        )
    return ShardingError(
        "the program writes to its arguments",
        cause="what is written to is carried from call to call if it is a buffer of the module",
        remedy="return what is new, and leave arguments as they are",
    )


def _unknown(about: Any) -> ShardingError:
    if isinstance(about, InputMutationAOTOutput):
        written = about.mutated_input
        return _written(own_name(written.target) if isinstance(written, ParamAOTInput) else "")
    if isinstance(about, ForwardTokenAOTInput):
        return ShardingError(
            "the program checks its values while it runs",
            cause="an op raises an error for some of them, as torch.linalg's do of matrices without an inverse",
            remedy="leave it out of the module, or write what it does with products and sums",
        )
    return ShardingError(
        "the program takes or gives what is neither a tensor of the module nor an argument or a result",
        cause=str(about)[:200],
        remedy="write to no arguments, return no views of them, and draw no random numbers",
    )


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
    slots = [*mutated, *returned]
    if len(slots) != len(output.args[0]):
        raise _written(own_name(next(iter(signature.parameters_to_mutate.values()), "")))
    return tuple(slots)


def own_name(name: str) -> str:
    """The name of a parameter or buffer in the user's module."""
    return name.removeprefix("graph_module.").removeprefix(PREFIX)


def _freeze_unreached(graph_module: Any, tensors: Sequence[Any], name: str) -> None:
    """Make buffers of the parameters that a loss does not depend on: AOTAutograd wants a gradient of all others."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with tracing(), mode:
        run = _Run(graph_module)
        fake = {key: _fake(mode, value) for key, value in run.named_parameters()}
        buffers = {key: _fake(mode, value) for key, value in run.named_buffers()}
        inputs = [_fake(mode, value) for value in tensors]
        results = torch.func.functional_call(run, {**fake, **buffers}, tuple(inputs))
        loss = results[0] if results else None
        _check_loss(loss, name)
        wanted = {key: value for key, value in fake.items() if value.requires_grad}
        gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    reached = {key for key, gradient in zip(wanted, gradients, strict=True) if gradient is not None}
    if not reached:
        raise _no_parameter(name)
    for key, value in list(run.named_parameters()):
        if key not in reached:
            owner, _, attribute = key.rpartition(".")
            holder = run.get_submodule(owner)
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
