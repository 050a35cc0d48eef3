"""A graph of ATen ops as StableHLO text, by torch-mlir, whose handles stay here."""

from __future__ import annotations

import operator
import re
from typing import Any

from torch._ops import HigherOrderOperator
from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import FxImporter
from torch_mlir.passmanager import PassManager

from shardwright.errors import ShardingError
from shardwright.frontends.torch.export import tracing
from shardwright.frontends.torch.places import keep_own_frames, place_of

__all__ = ["stablehlo_text"]

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{extra-library=})",
    "builtin.module(torch-backend-to-stablehlo-backend-pipeline)",
)
_OP = re.compile(r"torch\.((?:aten|prims|prim)\.[\w.]+)")
_PLACE = re.compile(r'"([^"]+)":(\d+):\d+')


def stablehlo_text(graph_module: Any, name: str) -> str:
    """The module with the graph as its `main`, placeholders as arguments in order, with locations.

    Raises:
        ShardingError: an op that torch-mlir has no StableHLO for, at its line.
    """
    graph = graph_module.graph
    keep_own_frames(graph)
    try:
        return _lowered(graph)
    except Exception as error:  # MLIR's, and whatever torch-mlir's importer meets with
        raise _refused(name, error, graph) from error


def _lowered(graph: Any) -> str:
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    with tracing():
        importer.import_stateless_graph(graph, func_name="main")
    with context:
        for pipeline in _PIPELINES:
            PassManager.parse(pipeline).run(importer.module.operation)
    text: str = importer.module.operation.get_asm(enable_debug_info=True)
    return text


def _refused(name: str, error: Exception, graph: Any) -> ShardingError:
    """That a graph cannot be written, by the op that cannot be written by itself, or else by what MLIR names."""
    text, location = str(error).strip() or type(error).__name__, ""
    if isinstance(error, ir.MLIRError) and error.error_diagnostics:
        text, location = error.error_diagnostics[0].message, str(error.error_diagnostics[0].location)
    op, place = _OP.search(text), _PLACE.search(location)
    node = _culprit(graph)
    return ShardingError(
        f"torch-mlir cannot write {name} as StableHLO",
        op=str(node.target) if node is not None else op[1] if op else "",
        location=(node is not None and place_of(node)) or (f"{place[1]}:{place[2]}" if place else ""),
        cause=" ".join(text.split())[:300],
        remedy="write what this op does with others that have a meaning in StableHLO",
    )


def _culprit(graph: Any) -> Any:
    """The first op that cannot be written in a program of its own; `None` where each can."""
    tried: set[str] = set()
    for node in graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        if isinstance(node.target, HigherOrderOperator):
            return node
        alone = _alone(node)
        described = str([(one.target, one.args, one.kwargs, str(one.meta.get("val"))) for one in alone.nodes])
        if described in tried:
            continue
        tried.add(described)
        try:
            _lowered(alone)
        except Exception:  # that is the question
            return node
    return None


def _alone(node: Any) -> Any:
    """A graph of one op, what it reads as placeholders."""
    graph = type(node.graph)()
    places: dict[Any, Any] = {}
    for number, operand in enumerate(node.all_input_nodes):
        places[operand] = graph.placeholder(f"operand{number}")
        places[operand].meta["val"] = operand.meta["val"]
    made = graph.node_copy(node, lambda operand: places[operand])
    value = node.meta["val"]
    results = [made]
    if isinstance(value, (tuple, list)):
        results = [graph.call_function(operator.getitem, (made, number)) for number in range(len(value))]
        for one, part in zip(results, value, strict=True):
            one.meta["val"] = part
    graph.output(tuple(results))
    return graph
