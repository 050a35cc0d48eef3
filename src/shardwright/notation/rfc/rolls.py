"""`mesh.collective_permute {mesh_axis = 0}`: each device hands its shard to the next one along the axis.

The last hands it to the first. That changes the tensor: a dimension is rolled by one part, which is two slices joined
the other way round. They are marked, so that they go back to what they came from.

    %1 = mesh.collective_permute %0 {mesh_axis = 0} : tensor<6xf32, #mesh.shard<@m, [[0]]>> -> …   on 3 devices

    %a = stablehlo.slice %0 [4:6]     %b = stablehlo.slice %0 [0:4]
    %1 = stablehlo.concatenate %a, %b, dim = 0 {shardwright.permuted = 0 : i64}

Source: the slides "Sharding Framework Design for Device Mesh", collective_permute: "useful for halo exchange".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.notation.rfc.collectives import Collective, Move
from shardwright.notation.rfc.layouts import Layout
from shardwright.notation.rfc.reading import ModuleReading

__all__ = ["import_roll", "is_roll", "roll_of"]

_PERMUTED = "shardwright.permuted"
"""The attribute of a concatenation that holds the axis, by position, whose devices hand on their shards."""
_SLICE, _CONCATENATE = "stablehlo.slice", "stablehlo.concatenate"


def import_roll(reading: ModuleReading, op: Any, value: Any, move: Move) -> Any:
    """The value rolled by one part of the dimension that the axis of a roll splits.

    Raises:
        ShardingError: the axis does not divide the dimension.
    """
    dim = next(number for number, axes in enumerate(move.axes) if axes)
    (axis,) = move.axes[dim]
    mesh = reading.statement(move.target).sharding.mesh
    count, shape = mesh.axes[axis][1], list(value.type.shape)
    if count == 1:
        return value
    if shape[dim] < 0 or shape[dim] % count:
        raise ShardingError(
            f"{count} devices along axis {axis} cannot hand on equal parts of dimension {dim} of {value.type}",
            cause="a shard becomes that of another device as it is",
            remedy="take a size that the devices divide",
        )
    start = shape[dim] - shape[dim] // count
    whole = replace(move.target, dims=tuple(() if n == dim else axes for n, axes in enumerate(move.target.dims)))
    parts = [_slice(reading, op, value, dim, bounds, whole) for bounds in ((start, shape[dim]), (0, start))]
    attributes = {
        "dimension": reading.attribute(f"{dim} : i64"),
        _PERMUTED: reading.attribute(f"{axis} : i64"),
        "sdy.sharding": reading.statement(move.target).per_value,
    }
    return _created(_CONCATENATE, op, value.type, parts, attributes)


def _slice(reading: ModuleReading, op: Any, value: Any, dim: int, bounds: tuple[int, int], layout: Layout) -> Any:
    limits, starts = list(value.type.shape), [0] * value.type.rank
    starts[dim], limits[dim] = bounds
    shape = [limit - start for start, limit in zip(starts, limits, strict=True)]
    named = {"start_indices": starts, "limit_indices": limits, "strides": [1] * len(shape)}
    attributes = {key: reading.attribute(f"array<i64: {', '.join(map(str, row))}>") for key, row in named.items()}
    attributes["sdy.sharding"] = reading.statement(layout).per_value
    return _created(_SLICE, op, ir.RankedTensorType.get(shape, value.type.element_type), [value], attributes)


def _created(name: str, op: Any, type: Any, operands: list[Any], attributes: dict[str, Any]) -> Any:
    created = ir.Operation.create(
        name, results=[type], operands=operands, attributes=attributes, loc=op.location, ip=ir.InsertionPoint(op)
    )
    return created.result


def is_roll(name: str, op: Any) -> bool:
    """Whether an op is a concatenation that was made of a permutation along an axis, and is one still."""
    if name != _CONCATENATE or _PERMUTED not in op.attributes or len(op.operands) != 2:
        return False
    slices = [value.owner for value in op.operands if not isinstance(value, ir.BlockArgument)]
    if [one.name for one in slices] != [_SLICE, _SLICE] or slices[0].operands[0] != slices[1].operands[0]:
        return False
    return all(len(list(value.uses)) == 1 for value in op.operands)


def roll_of(op: Any, layout: Layout) -> tuple[Any, list[Any], Collective]:
    """What a roll is of, its slices, and the permutation that it was, on a tensor that lies so."""
    slices = [value.owner for value in op.operands]
    axis = ir.IntegerAttr(op.attributes[_PERMUTED]).value
    return slices[0].operands[0], slices, Collective("collective_permute", layout, layout, {"mesh_axis": axis})
