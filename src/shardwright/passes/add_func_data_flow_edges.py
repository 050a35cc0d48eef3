"""`sdy-add-func-data-flow-edges`: an `sdy.func_data_flow_edge` where data enters a function that is called, and
behind every call for its results.

The edge takes the sharding of its value. The entry function, `@main` or the only one, has no edges of its own.
"""

from __future__ import annotations

from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.passes.add_data_flow_edges import add_edge
from shardwright.passes.call_graph import calls_in
from shardwright.passes.module_ops import ARGUMENTS, functions, rows_of, symbol_of
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

__all__ = ["add_func_data_flow_edges"]


@register("sdy-add-func-data-flow-edges", "Inserts an `sdy.func_data_flow_edge` for every function's and call's edges.")
def add_func_data_flow_edges(module: ir.Module, options: Options) -> None:
    """Add the edges of all functions but the entry, and of all calls.

    Raises:
        ShardingError: several functions, none of them `@main`.
    """
    shardings = Shardings(module)
    entry = _entry(module)
    for function in functions(module):
        if function != entry and len(function.regions[0].blocks) > 0:
            arguments = function.regions[0].blocks[0].arguments
            given = [shardings.one(row[SHARDING]) if SHARDING in row else None for row in rows_of(function, ARGUMENTS)]
            for value, sharding in reversed(list(zip(arguments, given, strict=True))):
                _add(value, sharding, function.location)
    for call in calls_in(module):
        attribute = call.attributes.get(SHARDING)
        of_results = [None] * len(call.results) if attribute is None else shardings.read(attribute)
        for value, sharding in reversed(list(zip(call.results, of_results, strict=True))):
            _add(value, sharding, call.location)


def _entry(module: ir.Module) -> Any:
    defined = functions(module)
    if len(defined) == 1:
        return defined[0]
    for function in defined:
        if symbol_of(function) == "main":
            return function
    if not defined:
        return None
    raise ShardingError(
        "the module has no function called main",
        cause=f"it has {len(defined)} functions, and which is the entry is not said",
        remedy="call the entry function @main",
    )


def _add(value: Any, sharding: TensorSharding | None, location: Any) -> None:
    add_edge(value, "sdy.func_data_flow_edge", {} if sharding is None else {SHARDING: per_value([sharding])}, location)
