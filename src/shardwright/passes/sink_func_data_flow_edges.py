"""Edges of data flow between functions and their calls, out of the module."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.edits import replace_by
from shardwright.passes.module_ops import functions, operations
from shardwright.passes.module_shardings import SHARDING, Shardings, unsaid
from shardwright.passes.registry import Options, register


@register("sdy-sink-func-data-flow-edges", "Sinks all func data flow edges into their input.", on="func.func")
def sink_func_data_flow_edges(module: ir.Module, options: Options) -> None:
    """Move the sharding of every `sdy.func_data_flow_edge` to its input, an argument or the result of a call."""
    shardings = Shardings(module)
    for function in functions(module):
        for op in [op for op in operations(function) if op.name == "sdy.func_data_flow_edge"]:
            _sink(op, shardings)
            replace_by(op, op.operands)


def _sink(edge: Any, shardings: Shardings) -> None:
    value = edge.operands[0]
    before = shardings.of(value)
    if SHARDING in edge.attributes:
        shardings.say(value, shardings.one(edge.attributes[SHARDING]))
    elif before is not None:
        shardings.say(value, unsaid(before.mesh, value.type, open=True))
