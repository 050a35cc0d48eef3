"""Functions of one origin that ended up alike, called as one: what flattening the call graph did, undone.

Alike are functions with the same `sdy.original_func_name` (or name), manual axes, and shardings of arguments and
results. With `dedup-functions-fully` the shardings do not count, and the one that most calls ask for is kept. Functions
that lose all calls stay for `symbol-dce`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.call_graph import ORIGINAL_NAME, Symbols, calls_in, original_name, retarget
from shardwright.passes.module_ops import ARGUMENTS, RESULTS, functions, symbol_of
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Option, Options, register

_MANUAL_AXES = "sdy.func_manual_axes"
_FULLY = "dedup-functions-fully"
_OPTIONS = (
    Option(
        _FULLY,
        False,
        "If true, one function is kept of those of one origin, regardless of the shardings of inputs and outputs.",
    ),
)


@register("sdy-unflatten-call-graph", "Unflattens the call graph.", options=_OPTIONS)
def unflatten_call_graph(module: ir.Module, options: Options) -> None:
    """Let every call call the function that is kept of those alike, and forget where functions come from.

    Raises:
        ShardingError: a call of a function that is not there.
    """
    symbols = Symbols(module)
    calls = calls_in(module)
    keys = _Keys(Shardings(module))
    called = [symbols.called(call) for call in calls]
    kept = _most_called(called, keys) if options[_FULLY] else _first(called, keys)
    for call, function in zip(calls, called, strict=True):
        retarget(call, symbol_of(kept[keys.of(function, options[_FULLY])]))
    for function in functions(module):
        for note in (ORIGINAL_NAME, _MANUAL_AXES):
            if note in function.attributes:
                del function.attributes[note]


class _Keys:
    """What functions that are alike have in common."""

    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings
        self.known: dict[str, tuple[Any, Any]] = {}

    def of(self, function: Any, fully: bool) -> Any:
        name = symbol_of(function)
        if name not in self.known:
            origin = original_name(function), function.attributes.get(_MANUAL_AXES)
            shardings = tuple(self.shardings.of_all(function, which) for which in (ARGUMENTS, RESULTS))
            self.known[name] = origin, shardings
        origin, shardings = self.known[name]
        return origin if fully else (origin, shardings)


def _first(called: list[Any], keys: _Keys) -> dict[Any, Any]:
    kept: dict[Any, Any] = {}
    for function in called:
        kept.setdefault(keys.of(function, False), function)
    return kept


def _most_called(called: list[Any], keys: _Keys) -> dict[Any, Any]:
    """Of each origin the function whose shardings are asked for most, the first of several."""
    kept: dict[Any, Any] = {}
    counts: Counter[Any] = Counter()
    for function in called:
        counts[keys.of(function, False)] += 1
        best = kept.setdefault(keys.of(function, True), function)
        if counts[keys.of(function, False)] > counts[keys.of(best, False)]:
            kept[keys.of(function, True)] = function
    return kept
