"""`sdy-flatten-call-graph`: a copy of a function for each of its calls, so that each can be split in its own way.

The first call, callees before callers, keeps the function itself; every other one gets a copy of it, with copies of
all that it calls. `sdy.original_func_name` on a copy says what it is a copy of.
"""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.call_graph import CallGraph, FunctionCopier, Symbols, callee_of, retarget
from shardwright.passes.registry import Options, register

__all__ = ["flatten_call_graph"]


@register("sdy-flatten-call-graph", "Flattens the call graph.")
def flatten_call_graph(module: ir.Module, options: Options) -> None:
    """Give every call a function of its own.

    Raises:
        ShardingError: a recursive function, or calls that need too many copies.
    """
    graph = CallGraph(module)
    graph.check_finite()
    symbols = Symbols(module)
    copier = FunctionCopier(symbols)
    called: set[str] = set()
    for call in graph.calls_callees_first():
        callee = callee_of(call)
        if callee in called:
            retarget(call, copier.copy(symbols.called(call)))
        called.add(callee)
