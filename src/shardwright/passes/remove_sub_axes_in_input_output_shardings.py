"""Inputs and outputs of the program split by whole axes: callers cannot name a part of an axis."""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.entry import entries
from shardwright.passes.module_ops import Row, change_rows
from shardwright.passes.module_shardings import SHARDING, Shardings, single
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.boundary import whole_axes


@register("sdy-remove-sub-axes-in-input-output-shardings", "Removes sub-axes in input and output shardings.")
def remove_sub_axes_in_input_output_shardings(module: ir.Module, options: Options) -> None:
    """Take the sub-axes, and what is minor to them, from the open dimensions of arguments and results of the entry."""
    shardings = Shardings(module)

    def change(row: Row, type: Any) -> None:
        if SHARDING in row:
            row[SHARDING] = single(whole_axes(shardings.one(row[SHARDING])))

    for function in entries(module):
        change_rows(function, change)
