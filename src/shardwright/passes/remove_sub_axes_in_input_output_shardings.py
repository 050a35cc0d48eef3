"""Inputs and outputs of the program split by whole axes: callers cannot name a part of an axis."""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.context import ir
from shardwright.mesh import Axes, Mesh
from shardwright.passes.attached import ARGUMENTS, RESULTS, SHARDING, Shardings, rows_of, set_rows, single
from shardwright.passes.entry import entries
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding


@register("sdy-remove-sub-axes-in-input-output-shardings", "Removes sub-axes in input and output shardings.")
def remove_sub_axes_in_input_output_shardings(module: ir.Module, options: Options) -> None:
    """Take the sub-axes, and what is minor to them, from the open dimensions of arguments and results of the entry."""
    shardings = Shardings(module)
    for function in entries(module):
        for which in (ARGUMENTS, RESULTS):
            rows = rows_of(function, which)
            for row in rows:
                if SHARDING in row:
                    row[SHARDING] = single(_by_whole_axes(shardings.one(row[SHARDING])))
            set_rows(function, which, rows)


def _by_whole_axes(sharding: TensorSharding) -> TensorSharding:
    mesh = sharding.mesh
    dims = tuple(replace(dim, axes=_whole(dim.axes, mesh)) if dim.open else dim for dim in sharding.dims)
    return replace(sharding, dims=dims)


def _whole(axes: Axes, mesh: Mesh) -> Axes:
    for count, axis in enumerate(axes):
        if not mesh.is_full(axis):
            return axes[:count]
    return axes
