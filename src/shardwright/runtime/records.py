"""Meshes and shardings as values of JSON, and back."""

from __future__ import annotations

from typing import Any

from shardwright.axes import AxisRef
from shardwright.mesh import Mesh
from shardwright.sharding import DimSharding, Partial, TensorSharding

__all__ = ["mesh_from", "mesh_record", "sharding_from", "sharding_record"]


def mesh_record(mesh: Mesh) -> dict[str, Any]:
    """A mesh as JSON has it."""
    return {"axes": mesh.axes, "ids": mesh.device_ids, "name": mesh.name}


def mesh_from(record: dict[str, Any]) -> Mesh:
    """The mesh of a record."""
    return Mesh([(axis, size) for axis, size in record["axes"]], device_ids=record["ids"], name=record["name"])


def sharding_record(sharding: TensorSharding) -> dict[str, Any]:
    """A sharding as JSON has it."""
    return {
        "mesh": mesh_record(sharding.mesh),
        "dims": [[_axis_record(axis) for axis in axes] for axes in sharding.axes],
        "partial": [(_axis_record(p.axis), p.kind) for p in sharding.partial],
        "offsets": sharding.offsets,
        "halos": sharding.halos,
    }


def sharding_from(record: dict[str, Any]) -> TensorSharding:
    """The sharding of a record."""
    dims = tuple(DimSharding(tuple(AxisRef(*axis) for axis in axes)) for axes in record["dims"])
    partial = tuple(Partial(AxisRef(*axis), kind) for axis, kind in record["partial"])
    offsets, halos = _bounds_from(record["offsets"]), _bounds_from(record["halos"])
    return TensorSharding(mesh_from(record["mesh"]), dims, partial=partial, offsets=offsets, halos=halos)


def _bounds_from(entries: Any) -> Any:
    return entries and tuple(entry if entry is None else tuple(entry) for entry in entries)


def _axis_record(axis: AxisRef) -> tuple[str, int, int]:
    return (axis.name, axis.pre, axis.size)
