"""`sdy-manual-axes-cleanup`: manual computations say of every manual axis where it is used, in the mesh's order.

A manual axis that an in- or out-sharding does not mention becomes one of its replicated axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardwright.boundary import with_unmentioned
from shardwright.ir.context import ir, parse_attribute
from shardwright.ir.ops import MANUAL
from shardwright.mesh import Mesh
from shardwright.notation.sdy.attributes import print_manual_axes
from shardwright.passes.module_ops import MANUAL_AXES, error_at, manual_axes_of, operations
from shardwright.passes.module_shardings import Shardings, per_value
from shardwright.passes.registry import Options, register
from shardwright.sharding import TensorSharding

__all__ = ["manual_axes_cleanup"]

_BOUNDARY = ("in_shardings", "out_shardings")


@register("sdy-manual-axes-cleanup", "Cleans up the use of manual axes in manual computations.")
def manual_axes_cleanup(module: ir.Module, options: Options) -> None:
    """Make the manual axes of every manual computation explicit, and sort them.

    Raises:
        ShardingError: a manual computation whose shardings have different meshes, or one that has ops and manual axes
            but neither operands nor results, so that nothing tells the mesh.
    """
    shardings = Shardings(module)
    for op in operations(module):
        if op.name == MANUAL:
            _clean(op, shardings)


def _clean(op: Any, shardings: Shardings) -> None:
    boundary = {name: shardings.read(op.attributes[name]) for name in _BOUNDARY}
    mesh = _common_mesh(op, [sharding for each in boundary.values() for sharding in each])
    axes = manual_axes_of(op)
    if mesh is None:
        _check_empty(op, axes)
        return
    ordered = sorted(axes, key=mesh.order.__getitem__)
    if ordered != list(axes):
        op.attributes[MANUAL_AXES] = parse_attribute(print_manual_axes(ordered))
    for name, values in zip(_BOUNDARY, (op.operands, op.results), strict=True):
        new = [
            _explicit(sharding, ordered, mesh) if isinstance(value.type, ir.ShapedType) else sharding
            for sharding, value in zip(boundary[name], values, strict=True)
        ]
        if tuple(new) != boundary[name]:
            op.attributes[name] = per_value(new)


def _check_empty(op: Any, axes: Sequence[str]) -> None:
    """A body without a mesh may be empty; what others would be local along, nobody knows."""
    if axes and len(op.regions[0].blocks[0].operations) > 1:
        raise error_at(
            op,
            "has manual_axes when there are no in/out shardings and the body is not empty",
            cause="no sharding tells the mesh that the manual axes are of",
            remedy="give the computation an operand or a result, or take the manual axes out",
        )


def _common_mesh(op: Any, shardings: Sequence[TensorSharding]) -> Mesh | None:
    """The mesh of all shardings but those of an empty mesh; `None` where there are none."""
    common: Mesh | None = None
    for sharding in shardings:
        mesh = sharding.mesh
        if common is None or not (common.axes or common.is_maximal):
            common = mesh
        elif (mesh.axes or mesh.is_maximal) and (mesh.axes, mesh.device_ids) != (common.axes, common.device_ids):
            raise error_at(
                op,
                "the shardings of a manual computation have different meshes",
                cause=f"@{common.name} and @{mesh.name}",
                remedy="use one mesh for all in_shardings and out_shardings",
            )
    return common


def _explicit(sharding: TensorSharding, axes: Sequence[str], mesh: Mesh) -> TensorSharding:
    made = with_unmentioned(replace(sharding, mesh=mesh), axes)
    return sharding if made.replicated == sharding.replicated else made
