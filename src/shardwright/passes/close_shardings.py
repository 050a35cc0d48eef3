"""All shardings closed: what is not said after propagation stays unsaid no longer."""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.context import ir
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Options, register
from shardwright.sharding import DimSharding, TensorSharding


@register("sdy-close-shardings", "Closes the dimensions of all shardings and drops their replicated axes.")
def close_shardings(module: ir.Module, options: Options) -> None:
    """Close every dimension; priorities stay where axes do, for an empty closed dimension cannot have one."""
    Shardings(module).changed_everywhere(module, _closed)


def _closed(sharding: TensorSharding) -> TensorSharding:
    dims = tuple(DimSharding(dim.axes, priority=dim.priority if dim.axes else None) for dim in sharding.dims)
    return replace(sharding, dims=dims, replicated=())
