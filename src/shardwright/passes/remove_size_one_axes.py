"""`sdy-remove-size-one-axes`: shardings without the axes of size 1, which split nothing. Meshes keep theirs."""

from __future__ import annotations

from dataclasses import replace

from shardwright.ir.context import ir
from shardwright.mesh import Axes, Mesh
from shardwright.passes.attached import Shardings
from shardwright.passes.registry import Options, register
from shardwright.sharding import DimSharding, TensorSharding

__all__ = ["remove_size_one_axes"]


@register("sdy-remove-size-one-axes", "Removes axes of size one from shardings.")
def remove_size_one_axes(module: ir.Module, options: Options) -> None:
    """Take axes of size 1 out of all shardings; meshes that shardings spell out count only beside one with a name."""
    shardings = Shardings(module)
    if any(_has_size_one(mesh) for mesh in shardings.meshes.values()):
        shardings.changed_everywhere(module, lambda sharding, shape: _without(sharding))


def _has_size_one(mesh: Mesh) -> bool:
    return any(size == 1 for _, size in mesh.axes)


def _without(sharding: TensorSharding) -> TensorSharding:
    if not _has_size_one(sharding.mesh):
        return sharding
    return replace(
        sharding,
        dims=tuple(map(_dim_without, sharding.dims)),
        replicated=_real(sharding.replicated),
        partial=tuple(partial for partial in sharding.partial if partial.axis.size > 1),
    )


def _dim_without(dim: DimSharding) -> DimSharding:
    axes = _real(dim.axes)
    # A priority on a closed dimension without axes would say nothing, and sdy's verifier refuses it.
    return DimSharding(axes, dim.open, dim.priority if axes or dim.open else None)


def _real(axes: Axes) -> Axes:
    return tuple(axis for axis in axes if axis.size > 1)
