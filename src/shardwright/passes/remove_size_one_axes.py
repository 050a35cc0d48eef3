"""`sdy-remove-size-one-axes`: shardings without the axes of size 1, which split nothing. Meshes keep theirs."""

from __future__ import annotations

from shardwright.ir.context import ir
from shardwright.passes.module_shardings import Shardings
from shardwright.passes.registry import Options, register
from shardwright.propagation.steps.boundary import without_size_one_axes

__all__ = ["remove_size_one_axes"]


@register("sdy-remove-size-one-axes", "Removes axes of size one from shardings.")
def remove_size_one_axes(module: ir.Module, options: Options) -> None:
    """Take axes of size 1 out of all shardings; meshes that shardings spell out count only beside one with a name."""
    shardings = Shardings(module)
    if any(size == 1 for mesh in shardings.meshes.values() for _, size in mesh.axes):
        shardings.changed_everywhere(module, without_size_one_axes)
