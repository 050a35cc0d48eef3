"""`sdy-propagate-sharding-from-func-to-call`: calls that say nothing get the shardings of the function's results."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.call_graph import Symbols, calls_in
from shardwright.passes.module_ops import RESULTS
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value
from shardwright.passes.registry import Options, register

__all__ = ["propagate_sharding_from_func_to_call"]


@register(
    "sdy-propagate-sharding-from-func-to-call",
    "Propagates the shardings of function results to calls that have none.",
)
def propagate_sharding_from_func_to_call(module: ir.Module, options: Options) -> None:
    """Give calls without shardings those of the results of what they call.

    Raises:
        ShardingError: a call of a function that there is not.
    """
    shardings = Shardings(module)
    symbols = Symbols(module)
    for call in calls_in(module):
        if SHARDING not in call.attributes:
            of_results = shardings.of_all(symbols.called(call), RESULTS)
            if of_results is not None:
                call.attributes[SHARDING] = per_value(of_results)
