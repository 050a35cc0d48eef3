"""Inputs and outputs split evenly: callers are not to pad.

    mesh = <["x"=2, "y"=4]>
    {"x", "y"} of a dimension of 12  →  {"x", "y":(1)2}
    {"x", "y"} of a dimension of 6   →  {"x"}

So for arguments and results of functions, results of calls, and the boundary of manual computations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.attached import (
    ARGUMENTS,
    RESULTS,
    SHARDING,
    Shardings,
    functions,
    operations,
    per_value,
    rows_of,
    set_rows,
    single,
    static_shape,
)
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

_KEPT_DIVISIBLE = {"func.call": (SHARDING,), "sdy.manual_computation": ("in_shardings", "out_shardings")}


@register(
    "sdy-update-non-divisible-input-output-shardings",
    "Makes inputs and outputs of functions evenly sharded, so that none needs padding.",
)
def update_non_divisible_input_output_shardings(module: ir.Module, options: Options) -> None:
    """Keep of each dimension the longest major part of its axes that divides it."""
    updating = _Updating(Shardings(module))
    for function in functions(module):
        updating.function(function)
    for op in operations(module):
        for key in _KEPT_DIVISIBLE.get(op.name, ()):
            if key in op.attributes:
                values = op.operands if key == "in_shardings" else op.results
                op.attributes[key] = updating.listed(op.attributes[key], [value.type for value in values])


class _Updating:
    def __init__(self, shardings: Shardings) -> None:
        self.shardings = shardings

    def function(self, function: Any) -> None:
        type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        for which, types in ((ARGUMENTS, type.inputs), (RESULTS, type.results)):
            rows = rows_of(function, which)
            for row, its in zip(rows, types, strict=True):
                if SHARDING in row:
                    row[SHARDING] = single(_divisible(self.shardings.one(row[SHARDING]), its))
            set_rows(function, which, rows)

    def listed(self, attribute: Any, types: list[Any]) -> Any:
        said = self.shardings.read(attribute)
        if len(said) != len(types):
            return attribute
        return per_value(_divisible(sharding, type) for sharding, type in zip(said, types, strict=True))


def _divisible(sharding: TensorSharding, type: Any) -> TensorSharding:
    """The sharding cut to what divides; a dimension that is cut loses its priority, as propagation is over."""
    shape = static_shape(type)
    if shape is None or not sharding.mesh.axes:
        return sharding
    even = sharding.evenly_dividing(shape)
    dims = tuple(
        new if new == old else replace(new, priority=None) for old, new in zip(sharding.dims, even.dims, strict=True)
    )
    return replace(even, dims=dims)
