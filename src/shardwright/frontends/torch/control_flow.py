"""Ops that call functions of the graph, branches and loops among them: torch-mlir has no StableHLO for these."""

from __future__ import annotations

from typing import Any

from torch._ops import HigherOrderOperator
from torch.fx import GraphModule

from shardwright.errors import ShardingError
from shardwright.frontends.torch.places import place_of

__all__ = ["check_control_flow"]

_LOOP = "let Python loop, over a number of steps that is known: for row in rows.unbind(): …"
_REMEDIES = {
    "cond": "compute both branches, and choose between their results: torch.where(condition, one, other)",
    "while_loop": _LOOP,
    "scan": _LOOP,
    "associative_scan": f"cumsum or cumprod, or {_LOOP}",
    "map_impl": "torch.vmap(function)(rows)",
    "flex_attention": "torch.nn.functional.scaled_dot_product_attention, what is added to scores as its attn_mask",
}


def check_control_flow(graph_module: Any) -> None:
    """That an exported graph, and what it has inside, calls none of its functions.

    Others than those named here, `torch.no_grad()` and `checkpoint` among them, become a part of it later.

    Raises:
        ShardingError: it does, at the line of the call.
    """
    for graph in [part.graph for part in graph_module.modules() if isinstance(part, GraphModule)]:
        for node in graph.nodes:
            if isinstance(node.target, HigherOrderOperator) and node.target.name() in _REMEDIES:
                name = node.target.name()
                raise ShardingError(
                    "the program branches or loops while it runs",
                    op=name,
                    location=place_of(node),
                    cause=f"{name} calls functions, for which torch-mlir has no StableHLO",
                    remedy=_REMEDIES[name],
                )
