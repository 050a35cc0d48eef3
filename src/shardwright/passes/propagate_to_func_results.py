"""Functions say of their results what they return."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.edits import terminator_of
from shardwright.passes.entry import entries
from shardwright.passes.module_ops import RESULTS, functions, rows_of, set_rows, static_shape
from shardwright.passes.module_shardings import Shardings, say_in_row
from shardwright.passes.registry import Options, register


@register("sdy-propagate-to-func-results", "Propagates shardings from what functions return to their results.")
def propagate_to_func_results(module: ir.Module, options: Options) -> None:
    """Give the results of every function but the entry the shardings of the values returned, or none."""
    shardings = Shardings(module)
    outermost = entries(module)
    for function in functions(module):
        if function not in outermost and len(function.regions[0].blocks) > 0:
            _propagate(function, shardings)


def _propagate(function: Any, shardings: Shardings) -> None:
    terminator = terminator_of(function.regions[0].blocks[0])
    if terminator.name != "func.return":
        return
    rows = rows_of(function, RESULTS)
    for row, value in zip(rows, terminator.operands, strict=True):
        say_in_row(row, shardings.of(value), static_shape(value.type) or ())
    set_rows(function, RESULTS, rows)
