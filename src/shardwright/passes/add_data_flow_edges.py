"""`sdy-add-data-flow-edges`: an `sdy.data_flow_edge` for every value by which data enters or leaves an op's regions.

| op | values |
| --- | --- |
| `stablehlo.while`, `stablehlo.case`, `stablehlo.optimization_barrier` | results |
| `sdy.manual_computation`, `sdy.named_computation` | arguments of the body, results |

The edge takes the sharding of its value, inside a manual computation without the manual axes, and the value's uses.
A value that has its edge already is left as it is, and so are tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardwright.boundary import without_manual_axes
from shardwright.ir.context import ir
from shardwright.ir.ops import COMPUTATIONS, DATA_FLOW_OPS
from shardwright.passes.edits import put_behind
from shardwright.passes.module_ops import edge_of, manual_axes_of, operations, static_shape
from shardwright.passes.module_shardings import SHARDING, Shardings, single
from shardwright.passes.registry import Options, register
from shardwright.propagation.working import EDGE
from shardwright.sharding import TensorSharding

__all__ = ["add_data_flow_edges", "add_edge", "add_edges"]

Owner = tuple[Any, TensorSharding | None]
"""A value that gets an edge, and the edge's sharding."""


@register("sdy-add-data-flow-edges", "Inserts an `sdy.data_flow_edge` for every data-flow edge.")
def add_data_flow_edges(module: ir.Module, options: Options) -> None:
    """Add the edges of all ops that have any."""
    shardings = Shardings(module)
    for op in operations(module, inner_first=True):
        add_edges(op, shardings)


def add_edges(op: Any, shardings: Shardings) -> None:
    """Add the edges of one op."""
    for value, sharding in list(_owners(op, shardings)):
        add_edge(value, EDGE, {} if sharding is None else {"sharding": single(sharding)}, value.location)


def add_edge(value: Any, name: str, attributes: Mapping[str, Any], location: Any) -> None:
    """Add an edge behind a value, unless it is no tensor of known shape or has its edge."""
    if static_shape(value.type) is not None and edge_of(value, name) is None:
        put_behind(value, name, attributes, location)


def _owners(op: Any, shardings: Shardings) -> Iterator[Owner]:
    """The values that get edges, last ones first, so that their edges stand in their order."""
    name, attributes = op.name, op.attributes
    if name in COMPUTATIONS:
        manual = manual_axes_of(op)
        (body,) = op.regions[0].blocks
        inside = [
            sharding and without_manual_axes(sharding, manual)
            for sharding in _read_all(attributes.get("in_shardings"), len(op.operands), shardings)
        ]
        outside = _read_all(attributes.get("out_shardings"), len(op.results), shardings)
        yield from reversed(list(zip(body.arguments, inside, strict=True)))
    elif name in DATA_FLOW_OPS:
        outside = _read_all(attributes.get(SHARDING), len(op.results), shardings)
    else:
        return
    yield from reversed(list(zip(op.results, outside, strict=True)))


def _read_all(attribute: Any, count: int, shardings: Shardings) -> list[TensorSharding | None]:
    return [None] * count if attribute is None else list(shardings.read(attribute))
