"""Calls say what the function says of its results, and a reshard follows where they said otherwise.

%1 = call @f(%0) {sdy.sharding = [A]}         %1 = call @f(%0) {sdy.sharding = [B]}
use %1                                    →   %2 = sdy.reshard %1 A
func.func @f(…) -> (T {sdy.sharding = B})     use %2
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.call_graph import Symbols, calls_in
from shardwright.passes.edits import put_behind
from shardwright.passes.module_ops import RESULTS
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value, single, unsaid
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding


@register("sdy-insert-func-call-reshards", "Inserts reshards for func and call sharding conflicts.")
def insert_func_call_reshards(module: ir.Module, options: Options) -> None:
    """Resolve what functions and calls say differently of results, in favour of the function.

    Raises:
        ShardingError: a call of a function that is not there.
    """
    symbols, shardings = Symbols(module), Shardings(module)
    for call in calls_in(module):
        _resolve(call, symbols.called(call), shardings)


def _resolve(call: Any, function: Any, shardings: Shardings) -> None:
    of_call = shardings.read(call.attributes[SHARDING]) if SHARDING in call.attributes else None
    results = shardings.of_all(function, RESULTS)
    if of_call is None and results is None:
        return
    types = [value.type for value in call.results]
    awaited = of_call or _closed_like(results or (), types)
    given = results or _closed_like(awaited, types)
    call.attributes[SHARDING] = per_value(given)
    for value, before, after in zip(list(call.results), given, awaited, strict=True):
        if not _same(before, after):
            put_behind(value, "sdy.reshard", {"sharding": single(after)}, call.location)


def _closed_like(shardings: Sequence[TensorSharding], types: Sequence[Any]) -> tuple[TensorSharding, ...]:
    """Shardings that split nothing, on the same meshes as others."""
    return tuple(unsaid(like.mesh, type, open=False) for like, type in zip(shardings, types, strict=True))


def _same(first: TensorSharding, second: TensorSharding) -> bool:
    """Whether two shardings split a tensor in the same way."""
    if not any(first.axes) and not any(second.axes):
        return True
    return first.mesh == second.mesh and first.axes == second.axes
