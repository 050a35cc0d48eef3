"""A graph of ATen ops as StableHLO text, by torch-mlir, whose handles stay here."""

from __future__ import annotations

import re
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_importer import FxImporter
from torch_mlir.passmanager import PassManager

from shardwright.errors import ShardingError
from shardwright.frontends.torch.export import tracing
from shardwright.frontends.torch.places import keep_own_frames

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
    keep_own_frames(graph_module.graph)
    context = ir.Context()
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    try:
        with tracing():
            importer.import_stateless_graph(graph_module.graph, func_name="main")
    except Exception as error:  # its importer refuses by whatever it meets with
        raise _refused(name, [(str(error).strip() or type(error).__name__, "")]) from error
    try:
        with context:
            for pipeline in _PIPELINES:
                PassManager.parse(pipeline).run(importer.module.operation)
    except ir.MLIRError as error:
        found = [(one.message, str(one.location)) for one in error.error_diagnostics]
        raise _refused(name, found or [(str(error), "")]) from None
    text: str = importer.module.operation.get_asm(enable_debug_info=True)
    return text


def _refused(name: str, messages: list[tuple[str, str]]) -> ShardingError:
    text, location = messages[0]
    op, place = _OP.search(text), _PLACE.search(location)
    return ShardingError(
        f"torch-mlir cannot write {name} as StableHLO",
        op=op[1] if op else "",
        location=f"{place[1]}:{place[2]}" if place else "",
        cause=" ".join(text.split())[:300],
        remedy="write what this op does with others that have a meaning in StableHLO",
    )
