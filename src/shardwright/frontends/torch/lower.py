"""A PyTorch module, called with some arguments, as a program and the way it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch

from shardwright.errors import ShardingError
from shardwright.frontends.load import Source, parse_source
from shardwright.frontends.module_tensors import ModuleTensor, renumbered, still_there
from shardwright.frontends.torch.arguments import in_order, leaf_names, result_names, structure_of
from shardwright.frontends.torch.call import TorchCall
from shardwright.frontends.torch.cleaning import clean, uncopied
from shardwright.frontends.torch.export import Exported, aliases, export
from shardwright.frontends.torch.joint import Functional, forward, joint, own_name
from shardwright.frontends.torch.optimizers import optimizer_of
from shardwright.frontends.torch.settled import drop_unread, settle
from shardwright.frontends.torch.signature import argument_names
from shardwright.frontends.torch.slots import Kind, Slot
from shardwright.frontends.torch.stablehlo import stablehlo_text
from shardwright.frontends.torch.training import optimizer_state, trained, training_step
from shardwright.ir.graph import Graph
from shardwright.notation.modules import located_text
from shardwright.words import kind_of

__all__ = ["lower"]

_TENSORS = "give tensors, plain values, and containers of them"


def lower(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    train: Callable[..., Any] | None = None,
    optimizer: Any = None,
) -> tuple[Source, TorchCall]:
    """The program of `module(*args, **kwargs)`, or of the loss `train(module, *args, **kwargs)` and its gradients, or
    what the optimizer makes of these.

    Raises:
        ShardingError: see `shardwright.from_torch`.
    """
    _check(module, args, train, optimizer)
    with suppress(ShardingError):  # also for a tensor inside that can be no result: then without those of parts
        return _lowered(module, args, kwargs, train, optimizer, has_parts=True)
    return _lowered(module, args, kwargs, train, optimizer, has_parts=False)


def _lowered(
    module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    train: Callable[..., Any] | None,
    optimizer: Any,
    has_parts: bool,
) -> tuple[Source, TorchCall]:
    own = None if optimizer is None else optimizer_of(optimizer, module)
    name, kwargs = type(module).__name__, in_order(kwargs)
    arguments, tensors = structure_of((args, kwargs), f"an argument of {name}", _TENSORS)
    called = train or _call
    names = leaf_names(train or module.forward, 1 if train else 0, args, kwargs)
    exported = export(module, called, arguments, tensors, name, has_parts)
    functional = (joint if train else forward)(exported, tensors, names, name)
    kept: dict[Slot, Any] = {}
    if own is not None:
        kept = optimizer_state(own, trained(functional, own))
        functional = training_step(functional, own, kept)
    functional = _written_once(replace(functional, outputs=_named(functional.outputs, exported, train is not None)))
    state = _state(module, exported.graph_module)
    kept_names = module.state_dict().keys()  # buffers may be none of it
    held = {s: state[s.name] for s in functional.inputs if s.kind.is_state and s.kind is not Kind.OPTIMIZER}
    call = TorchCall(
        name=name,
        inputs=functional.inputs,
        outputs=tuple(slot for slot in functional.outputs if slot.kind is not Kind.PART),
        arguments=arguments,
        returned=exported.outputs,
        examples=tuple(tensors),
        state={**held, **kept},
        aliases={name: first for name, first in aliases(module).items() if name in kept_names},
        optimizer=own,
    )
    return _source(functional, exported.parts, name), call


def _call(module: Any, *args: Any, **kwargs: Any) -> Any:
    return module(*args, **kwargs)


def _check(module: Any, args: Any, train: Any, optimizer: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        raise ShardingError(
            f"not a module: {module!r:.100}", cause=f"it is {kind_of(module)}", remedy="give a torch.nn.Module"
        )
    if not isinstance(args, tuple):
        raise ShardingError(
            "the arguments are no tuple",
            cause=f"they are {kind_of(args)}",
            remedy="give them as torch.export takes them: sw.from_torch(module, (x,))",
        )
    if optimizer is not None and train is None:
        raise ShardingError(
            "an optimizer is given, and no loss",
            cause="what it changes parameters by are the gradients of a loss",
            remedy="give one: train=lambda module, x, y: loss(module(x), y)",
        )
    if train is not None and not callable(train):
        raise ShardingError(
            f"not a loss function: {train!r:.100}",
            cause=f"it is {kind_of(train)}",
            remedy="give a function of the module and its arguments: lambda module, x, y: loss(module(x), y)",
        )


def _state(module: Any, graph_module: Any) -> dict[str, Any]:
    """Parameters, buffers, and tensors made of numbers in the module's code, by their names in the program."""
    made = {own_name(name): value for name, value in graph_module.named_buffers()}
    return {**made, **dict(module.named_buffers()), **dict(module.named_parameters())}


def _named(slots: Sequence[Slot], exported: Exported, is_loss: bool) -> tuple[Slot, ...]:
    """The slots with results called by their paths in what is returned, then those of parts, then assigned buffers."""
    names = result_names(exported.outputs.tree([torch.empty(0)] * exported.outputs.tensor_count))
    names = ["loss", *names[1:]] if is_loss else names
    results = iter(
        [
            *(Slot(Kind.OUTPUT, name) for name in names),
            *(Slot(Kind.PART, str(part)) for part in exported.parts),
            *(Slot(Kind.BUFFER, name) for name in exported.assigned),
        ]
    )
    return tuple(next(results) if slot.kind is Kind.OUTPUT else slot for slot in slots)


def _written_once(functional: Functional) -> Functional:
    """Without what was written to a buffer before another tensor was put in its place."""
    (output,) = (node for node in functional.graph_module.graph.nodes if node.op == "output")
    last = {slot: number for number, slot in enumerate(functional.outputs)}
    kept = [n for n, slot in enumerate(functional.outputs) if last[slot] == n or slot.kind is not Kind.BUFFER]
    output.args = (tuple(output.args[0][number] for number in kept),)
    return replace(functional, outputs=tuple(functional.outputs[number] for number in kept))


def _source(functional: Functional, parts: Sequence[ModuleTensor], name: str) -> Source:
    """The program of a graph, its arguments and results called by their slots."""
    _uncopy(functional)
    clean(functional.graph_module.graph)
    source = parse_source(stablehlo_text(functional.graph_module, name), name)
    settle(source.graph)
    numbers = _without_parts(source.graph, functional.outputs)
    own = replace(functional, outputs=tuple(slot for slot in functional.outputs if slot.kind is not Kind.PART))
    graph = _with_slots(source.graph, own)
    return Source(name, located_text(graph), graph, parts=still_there(renumbered(parts, numbers), graph))


def _uncopy(functional: Functional) -> None:
    """Let what parts take and give be itself: it was copied while there were side effects."""
    (output,) = (node for node in functional.graph_module.graph.nodes if node.op == "output")
    pairs = zip(functional.outputs, output.args[0], strict=True)
    output.args = (tuple(uncopied(node) if slot.kind is Kind.PART else node for slot, node in pairs),)


def _without_parts(graph: Graph, slots: Sequence[Slot]) -> list[int]:
    """Take from the results, in place, what parts take and give, and what is made for these alone; their values."""
    returned = graph.main.block.terminator
    pairs = list(zip(slots, returned.operands, strict=True))
    returned.operands = tuple(value for slot, value in pairs if slot.kind is not Kind.PART)
    returned.signature = returned.signature.replace(operands=tuple(graph.types[value] for value in returned.operands))
    graph.main.result_shardings = [None] * len(returned.operands)
    drop_unread(graph)
    return [value for slot, value in pairs if slot.kind is Kind.PART]


def _with_slots(graph: Graph, functional: Functional) -> Graph:
    """The graph with names, and with state given away that results replace."""
    replaced = {slot for slot in functional.outputs if slot.kind.is_state}
    results = argument_names(functional.outputs)
    main = replace(
        graph.main,
        argument_names=argument_names(functional.inputs),
        argument_attributes=[{"jax.buffer_donor": "true"} if slot in replaced else {} for slot in functional.inputs],
        result_names=results,
        result_attributes=[{"jax.result_info": f'"{result}"'} for result in results],
    )
    return replace(graph, main=main)
