"""Inputs and outputs split evenly: callers are not to pad.

    mesh = <["x"=2, "y"=4]>
    {"x", "y"} of a dimension of 12  →  {"x", "y":(1)2}
    {"x", "y"} of a dimension of 6   →  {"x"}

So for arguments and results of functions, results of calls, and the boundary of manual computations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardwright.ir.context import ir
from shardwright.passes.module_ops import Row, change_rows, functions, operations, static_shape
from shardwright.passes.module_shardings import SHARDING, Shardings, per_value, single
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.boundary import divisible
from shardwright.sharding import TensorSharding

_KEPT_DIVISIBLE = {"func.call": (SHARDING,), "sdy.manual_computation": ("in_shardings", "out_shardings")}


@register(
    "sdy-update-non-divisible-input-output-shardings",
    "Makes inputs and outputs of functions evenly sharded, so that none needs padding.",
)
def update_non_divisible_input_output_shardings(module: ir.Module, options: Options) -> None:
    """Keep of each dimension the longest major part of its axes that divides it."""
    shardings = Shardings(module)

    def change(row: Row, type: Any) -> None:
        if SHARDING in row:
            row[SHARDING] = single(_divisible(shardings.one(row[SHARDING]), type))

    for function in functions(module):
        change_rows(function, change)
    for op in operations(module):
        for key in _KEPT_DIVISIBLE.get(op.name, ()):
            if key in op.attributes:
                given, values = shardings.read(op.attributes[key]), op.operands if key == "in_shardings" else op.results
                if len(given) == len(values):
                    op.attributes[key] = per_value(_all_divisible(given, values))


def _all_divisible(shardings: Iterable[TensorSharding], values: Iterable[Any]) -> list[TensorSharding]:
    return [_divisible(sharding, value.type) for sharding, value in zip(shardings, values, strict=True)]


def _divisible(sharding: TensorSharding, type: Any) -> TensorSharding:
    shape = static_shape(type)
    return sharding if shape is None else divisible(sharding, shape)
