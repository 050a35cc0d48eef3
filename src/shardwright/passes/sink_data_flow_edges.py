"""Edges of data flow, out of the module: what propagation said on them goes to the op that they belong to.

    %1:2 = stablehlo.while(…)                             %1:2 = stablehlo.while(…)
    %2 = sdy.data_flow_edge %1#0 sharding=<@m, [{"x"}]>     attributes {sdy.sharding = …[<@m, [{"x"}]>, <@m, [{?}]>]}
    use %2                                                use %1#0

Of the values of an op of which one has a sharding, the others become fully open on the same mesh. Inside a manual
computation its manual axes are not seen; they are put back in front.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwright.boundary import with_manual_axes
from shardwright.ir.context import context, ir
from shardwright.ir.ops import COMPUTATIONS, DATA_FLOW_OPS, MANUAL
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import edge_of, functions, manual_axes_of, operations
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value, unsaid
from shardwright.passes.registry import Option, Options, register
from shardwright.propagation.working import EDGE
from shardwright.sharding import TensorSharding

__all__ = ["remove_edges_of", "say_what_edges_say"]

_ORIGINS = "sink-debug-sharding-origins"
_EDGES = "sink-debug-propagation-edge-sharding"
_NOTES = {_ORIGINS: "sharding_origins", _EDGES: "propagation_edges"}
_OPTIONS = (
    Option(_ORIGINS, False, "Whether to sink where shardings come from, as propagation noted it."),
    Option(_EDGES, False, "Whether to sink along which edges shardings came, as propagation noted it."),
)


@register("sdy-sink-data-flow-edges", "Sinks all data flow edges into their input.", options=_OPTIONS, on="func.func")
def sink_data_flow_edges(module: ir.Module, options: Options) -> None:
    """Move the sharding of every edge to its owner, and let the owner stand for the edge."""
    shardings = Shardings(module)
    notes = [note for option, note in _NOTES.items() if options[option]]
    for function in functions(module):
        for op in operations(function):
            if op.name in DATA_FLOW_OPS:
                say_what_edges_say(op, shardings, notes)
        for edge in [op for op in operations(function) if op.name == EDGE]:
            replace_by(edge, edge.operands)


def remove_edges_of(op: Any) -> None:
    """Take the edges of a computation's arguments and results out of the module."""
    for owner in (*op.regions[0].blocks[0].arguments, *op.results):
        edge = edge_of(owner)
        if edge is not None:
            replace_by(edge, edge.operands)


def say_what_edges_say(op: Any, shardings: Shardings, notes: Sequence[str] = ()) -> None:
    """Give an op the shardings that its edges have, and what propagation noted on them under the names in `notes`."""
    is_computation = op.name in COMPUTATIONS
    inner = list(op.regions[0].blocks[0].arguments) if is_computation else []
    inside = _on_edges(inner, shardings)
    if inside:
        if op.name == MANUAL:
            manual = manual_axes_of(op)
            before = shardings.read(op.attributes["in_shardings"])
            inside = [_seen_outside(at, free, manual) for at, free in zip(before, inside, strict=True)]
        op.attributes["in_shardings"] = per_value(inside)
    results = list(op.results)
    outside = _on_edges(results, shardings)
    if outside:
        op.attributes["out_shardings" if is_computation else SHARDING] = per_value(outside)
    for note in notes:
        op.attributes[f"sdy.block_arg_{note}"] = _noted(inner, note)
        op.attributes[f"sdy.result_{note}"] = _noted(results, note)


def _on_edges(owners: Sequence[Any], shardings: Shardings) -> list[TensorSharding]:
    """The shardings on the edges that `owners` have; nothing if there are none."""
    edges = [edge_of(owner) for owner in owners]
    stated = [shardings.one(e.attributes["sharding"]) if e and "sharding" in e.attributes else None for e in edges]
    first = next((sharding for sharding in stated if sharding is not None), None)
    if first is None:
        return []
    opened = [unsaid(first.mesh, owner.type, open=True) for owner in owners]
    return [sharding or otherwise for sharding, otherwise in zip(stated, opened, strict=True)]


def _seen_outside(boundary: TensorSharding, inside: TensorSharding, manual: tuple[str, ...]) -> TensorSharding:
    """The sharding of an argument with its manual axes; that of one device, which has no dimensions, as it is."""
    return with_manual_axes(boundary, inside, manual) if boundary.rank == inside.rank else inside


def _noted(owners: Sequence[Any], note: str) -> Any:
    """What propagation noted on the edges of `owners`, of those that it noted something on."""
    edges = [edge for edge in map(edge_of, owners) if edge is not None]
    notes = [edge.attributes.get(f"sdy.{note}") for edge in edges]
    return ir.ArrayAttr.get([noted for noted in notes if noted is not None], context=context())
