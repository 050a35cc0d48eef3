"""The devices of a module: all of its meshes are made of the same ones, and their number is one."""

from __future__ import annotations

from collections.abc import Mapping

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.locations import LocationTable
from shardwright.mesh import MOST_PARTITIONS, Mesh

__all__ = ["check_counts", "check_meshes"]

_COUNTS = ("mhlo.num_partitions", "mhlo.num_replicas")


def check_counts(module: ir.Module, name: str = "-") -> None:
    """See that the numbers of partitions and replicas that a module states are such; diagnostics call it `name`.

    Raises:
        ShardingError: one that is no integer, less than 1, or not one of 32 bits.
    """
    op = module.operation
    for key in _COUNTS:
        count = op.attributes.get(key)
        if count is None or _is_count(count):
            continue
        raise ShardingError(
            f"{key} is {str(count)[:80]}",
            op=op.name,
            location=LocationTable(name).where(op.location),
            cause=f"it is a number of 32 bits, from 1 to {MOST_PARTITIONS}",
            remedy="say how many there are, or take the attribute away",
        )


def _is_count(attribute: ir.Attribute) -> bool:
    if not isinstance(attribute, ir.IntegerAttr) or str(attribute.type) == "i1":
        return False
    return 1 <= attribute.value <= MOST_PARTITIONS


def check_meshes(meshes: Mapping[str, Mesh]) -> None:
    """See that all meshes, those without axes left aside, have one size.

    Raises:
        ShardingError: they have not.
    """
    sizes = {mesh.size: mesh for mesh in meshes.values() if mesh.axes}
    if len(sizes) > 1:
        listed = ", ".join(f"@{mesh.name} of {size}" for size, mesh in sizes.items())
        raise ShardingError(
            "the module has meshes of different size",
            op="sdy.mesh",
            cause=f"devices: {listed}",
            remedy="use one set of devices for the whole module",
        )
