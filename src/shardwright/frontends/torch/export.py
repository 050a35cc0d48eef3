"""A module, called with some arguments, as one graph of ATen ops in which every parameter stands once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from shardwright.errors import ShardingError
from shardwright.frontends.module_tensors import ModuleTensor
from shardwright.frontends.torch.arguments import Structure, structure_of
from shardwright.frontends.torch.carried import Carried
from shardwright.frontends.torch.control_flow import check_control_flow
from shardwright.frontends.torch.quiet import quiet
from shardwright.frontends.torch.untraceable import untraceable
from shardwright.frontends.torch.watched import Watched

__all__ = ["PREFIX", "Exported", "aliases", "export", "tracing"]

PREFIX = "module."
"""What stands before the names of parameters and buffers in an exported module."""

_RETURNED = "return tensors and plain values; of a transformers model give use_cache=False and return_dict=True"


_TENSORS = "make it a function of its tensors: no branches on values, no sizes that depend on them"

_Returned = tuple[Structure, Watched, Carried, tuple[str, ...]]
"""Of a run: its results, the tensors at its parts, what it keeps, and which buffers it assigns."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A module as a graph of ATen ops.

    Attributes:
        graph_module: Takes the tensors among the arguments, returns a tuple of tensors. What was tied is one attribute.
        outputs: The structure of what was returned.
        parts: What the calls of the module's parts take and give, each by its place among the results behind these.
        assigned: The buffers that a call assigns, what they become being the last results.
    """

    graph_module: Any
    outputs: Structure
    parts: tuple[ModuleTensor, ...] = ()
    assigned: tuple[str, ...] = ()


class _Flat(torch.nn.Module):  # type: ignore[misc]  # torch is not there for the type checker
    """A module, or a function of it, that takes tensors and returns a tuple of tensors."""

    def __init__(self, module: Any, run: Callable[..., tuple[Any, ...]]) -> None:
        super().__init__()
        self.module = module
        self._run = run

    def forward(self, *tensors: Any) -> tuple[Any, ...]:
        return self._run(self.module, *tensors)


def export(
    module: Any, fn: Callable[..., Any], arguments: Structure, tensors: Sequence[Any], name: str, has_parts: bool
) -> Exported:
    """Trace `fn(module, *args, **kwargs)` by `torch.export`.

    Arguments:
        module: The module.
        fn: What is called with it.
        arguments: The structure of `(args, kwargs)`.
        tensors: The tensors in it.
        name: What the module is called in diagnostics.
        has_parts: Whether what the module's parts take and give is to be among the results.

    Raises:
        ShardingError: what torch.export cannot trace, with what it says of that; an attribute that a call changes and
            that is no buffer; branches and loops that are ops.
    """
    returned: list[_Returned] = []  # torch.export takes back what is written to a module it traces

    def run(traced: Any, *tensors: Any) -> tuple[Any, ...]:
        args, kwargs = arguments.tree(tensors)
        watched, carried = Watched(), Carried(module, name)
        with carried.restored():
            # torch.export stands proxies in the place of modules, one for each name, with the hooks of the modules
            with watched.parts_of(module) if has_parts else nullcontext():
                outputs, results = structure_of(fn(traced, *args, **kwargs), "a result", _RETURNED)
            assigned = carried.assigned()
        returned.append((outputs, watched, carried, tuple(assigned)))
        return (*results, *watched.tensors, *assigned.values())

    flat = _Flat(module, run)
    flat.training = module.training  # and no more: parts of a module may be in another mode than the whole
    try:
        with tracing():
            program = torch.export.export(flat, tuple(tensors), strict=False)
            graph_module = program.module(check_guards=False)
    except ShardingError:
        raise
    except Exception as error:  # torch raises whatever the module's own code does, and dozens of its own
        raise untraceable("torch.export", name, error, _TENSORS, module) from error
    check_control_flow(graph_module)
    outputs, watched, carried, assigned = returned[-1]
    carried.check_unread(_constants(graph_module, module))
    _tie(graph_module, module)
    _hold(graph_module)
    return Exported(graph_module, outputs, tuple(watched.about), assigned)


@contextmanager
def tracing() -> Iterator[None]:
    """While torch traces: without what it tells of its own insides, and without the fused kernels of a CPU.

    Attention is then the products and the softmax that it is, and a recurrent layer its cells.
    """
    with quiet(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False):
        yield


def _constants(graph_module: Any, module: Any) -> list[Any]:
    """The tensors that a graph reads and that are no parameters or buffers of the module."""
    own = {PREFIX + name for name in aliases(module)}
    names = {node.target for node in graph_module.graph.nodes if node.op == "get_attr" and node.users} - own
    return [operator.attrgetter(name)(graph_module) for name in names]


def _tie(graph_module: Any, module: Any) -> None:
    """Let what is one tensor in the module be one attribute of the graph, under the first of its names."""
    same = {PREFIX + name: PREFIX + first for name, first in aliases(module).items()}
    for node in graph_module.graph.nodes:
        if node.op == "get_attr":
            node.target = same.get(node.target, node.target)
    for name in [name for name, other in same.items() if name != other]:
        _delete(graph_module, name)
    graph_module.graph.lint()
    graph_module.recompile()


def _hold(graph_module: Any) -> None:
    """Make buffers of the tensors that the module makes of numbers written in its code: they become arguments."""
    for name in {node.target for node in graph_module.graph.nodes if node.op == "get_attr"}:
        owner, _, attribute = name.rpartition(".")
        holder = graph_module.get_submodule(owner)
        value = getattr(holder, attribute)
        if isinstance(value, torch.Tensor) and attribute not in {**holder._parameters, **holder._buffers}:
            delattr(holder, attribute)
            holder.register_buffer(attribute, value, persistent=False)


def _delete(graph_module: Any, name: str) -> None:
    owner, _, attribute = name.rpartition(".")
    try:
        holder = graph_module.get_submodule(owner)
    except AttributeError:  # what the graph does not read may be gone already
        return
    if hasattr(holder, attribute):
        delattr(holder, attribute)


def aliases(module: Any) -> Mapping[str, str]:
    """Every name of a parameter or buffer → the name under which the program has it."""
    first: dict[int, str] = {}
    every = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: first.setdefault(id(tensor), name) for name, tensor in every}
