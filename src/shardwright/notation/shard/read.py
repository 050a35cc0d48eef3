"""What a `shard.grid`, a `shard.sharding` and the notes of a `shard.shard` say, from their attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.ir.context import ir
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.notation.notation import Shape
from shardwright.notation.shard import sharding as shard
from shardwright.sharding import DimSharding, TensorSharding

__all__ = [
    "DYNAMIC",
    "Described",
    "describe",
    "is_private",
    "read_grid",
    "returns_of",
    "sharding_of",
    "static_shape",
    "tensor_rank",
]

DYNAMIC = -(1 << 63)
"""Stands in an array of sizes for one that is known at run time only."""


_NAME = re.compile(r'[^"\\\x00-\x1f\x7f]+')


@dataclass(frozen=True, slots=True)
class Described:
    """What a `shard.sharding` says, before it is known of which tensor: text without the grid, and the grid."""

    text: str
    mesh: Mesh


def read_grid(op: Any) -> tuple[str, Mesh | None]:
    """Name and mesh of a `shard.grid`; no mesh where a size is known at run time only.

    Raises:
        ShardingError: no name, no axes, sizes below 1, or `axis_names` that do not name the axes.
    """
    attributes = op.attributes
    symbol = attributes.get("sym_name", None)
    if not isinstance(symbol, ir.StringAttr) or not symbol.value:
        raise ShardingError("a grid without a name", remedy="write shard.grid @g(shape = 2x4)")
    if not _NAME.fullmatch(symbol.value):
        raise ShardingError(
            f"the name of grid {symbol.value[:200]!r} cannot be written in a sharding",
            remedy="leave out quotes, backslashes and control characters",
        )
    visibility = attributes.get("sym_visibility", symbol)
    if visibility is not symbol and str(visibility) not in ('"private"', '"public"', '"nested"'):
        raise ShardingError(
            f"grid @{symbol.value} has the visibility {str(visibility)[:200]}", remedy='write "private", or nothing'
        )
    shape = _numbers(attributes, "shape")
    if not shape:
        raise ShardingError(f"grid @{symbol.value} has no axes", remedy="give it at least one: (shape = 4)")
    if DYNAMIC in shape:
        return symbol.value, None
    return symbol.value, Mesh(zip(_axis_names(attributes, len(shape)), shape, strict=True), name=symbol.value)


def _axis_names(attributes: Any, count: int) -> list[str]:
    if "axis_names" not in attributes:
        return [f"axis_{number}" for number in range(count)]
    array = attributes["axis_names"]
    names = [entry.value for entry in array if isinstance(entry, ir.StringAttr)] if _is_array(array) else []
    if len(names) != count or len(set(names)) != count or any(not _NAME.fullmatch(name) for name in names):
        raise ShardingError(
            f"axis_names = {str(array)[:200]} do not name {count} axes",
            remedy="give every axis a name of its own, or leave axis_names out",
        )
    return names


def _is_array(attribute: Any) -> bool:
    return isinstance(attribute, ir.ArrayAttr)


def _numbers(attributes: Any, key: str) -> list[int]:
    """The numbers of a dense array, none where it is left out."""
    if key not in attributes:
        return []
    array = attributes[key]
    if not isinstance(array, ir.DenseI64ArrayAttr | ir.DenseI16ArrayAttr | ir.DenseI32ArrayAttr):
        raise ShardingError(f"{key} = {str(array)[:200]} is no list of numbers", remedy="write array<i64: 2, 4>")
    return list(array)


def describe(op: Any, meshes: Mapping[str, Mesh]) -> Described:
    """What a `shard.sharding` or `mesh.sharding` says. Halos and offsets that are constants of the program are read.

    Raises:
        ShardingError: an unknown grid or one of unknown size, malformed attributes, or a number that is no constant.
    """
    attributes = op.attributes
    mesh = _grid_of(attributes, meshes)
    axes = str(attributes["split_axes"]) if "split_axes" in attributes else ""
    if "[" not in axes:
        raise ShardingError(f"split_axes = {axes[:200] or 'nothing'}", remedy="write split_axes = [[0], []]")
    text = f"{op.name} split_axes = {axes[axes.index('[') : axes.rindex(']') + 1]}"
    partial = _numbers(attributes, "partial_axes")
    if partial:
        kind = str(attributes["partial_type"]) if "partial_type" in attributes else "<sum>"
        word = kind[kind.find("<") + 1 : kind.rfind(">")].removeprefix("partial ")  # #mesh.partial<max> is older
        text += f" partial = {word} {partial}"
    values = list(op.operands)
    for key in ("sharded_dims_offsets", "halo_sizes"):
        numbers = _numbers(attributes, f"static_{key}")
        unknown = [place for place, number in enumerate(numbers) if number == DYNAMIC]
        for place in unknown:
            numbers[place] = _constant(values.pop(0) if values else None, key)
        if numbers:
            text += f" {key} = {numbers}"
    if values:
        raise ShardingError(
            f"{op.name} has {len(values)} operands more than its sizes ask for", remedy="write ? for each of them"
        )
    return Described(text, mesh)


def _grid_of(attributes: Any, meshes: Mapping[str, Mesh]) -> Mesh:
    symbol = attributes.get("grid", attributes.get("mesh", None))
    if not isinstance(symbol, ir.FlatSymbolRefAttr):
        raise ShardingError("a sharding names no grid", remedy="write shard.sharding @g split_axes = [[0], []]")
    mesh = meshes.get(symbol.value)
    if mesh is None:
        known = ", ".join("@" + name for name in meshes) or "none"
        raise ShardingError(
            f"the sizes of grid @{symbol.value} are not known",
            cause=f"it is not defined, or has a size that is known at run time only; grids of known size: {known}",
            remedy=f"define it with all its sizes: shard.grid @{symbol.value}(shape = 2x4)",
        )
    return mesh


def _constant(value: Any, key: str) -> int:
    owner = value.owner if value is not None else None
    if owner is not None and not isinstance(owner, ir.Block) and owner.operation.name == "arith.constant":
        number = owner.operation.attributes["value"]
        if isinstance(number, ir.IntegerAttr):
            return number.value
    source = "an argument" if isinstance(owner, ir.Block) else owner.operation.name if owner is not None else "nothing"
    raise ShardingError(
        f"{key} are known at run time only",
        cause=f"one of them is made by {source}, not by arith.constant",
        remedy="write the number in the list",
    )


def sharding_of(described: Described, type: Any, opened: Any, replicated: Any) -> TensorSharding:
    """The sharding of a tensor of `type`, with the notes `open` and `replicated` of its `shard.shard`.

    Raises:
        ShardingError: what `shard.parse` refuses, a type that is no ranked tensor, or notes that do not fit.
    """
    shape, rank = static_shape(type), tensor_rank(type)
    if rank is None:
        raise ShardingError(f"type {type} has no dimensions to shard", remedy="annotate ranked tensors")
    sharding = shard.parse(described.text, shape, described.mesh)
    missing = rank - sharding.rank
    if missing < 0:
        raise ShardingError(
            f"{sharding.rank} lists of split axes are given to {type}", remedy="give at most one list per dimension"
        )
    if missing:
        none = (None,) * missing
        sharding = replace(
            sharding,
            dims=sharding.dims + (DimSharding(),) * missing,
            offsets=sharding.offsets and sharding.offsets + none,
            halos=sharding.halos and sharding.halos + none,
        )
    if shape is None:
        _check_divides(sharding, type)
    return _replicated(_opened(sharding, opened), replicated)


def _check_divides(sharding: TensorSharding, type: Any) -> None:
    """Where only some sizes are known, these must divide: offsets for one dimension would have to be given for all."""
    for number, dim in enumerate(sharding.dims):
        told = sharding.offsets is not None and sharding.offsets[number] is not None
        if not told and not type.is_dynamic_dim(number) and type.get_dim_size(number) % axes_size(dim.axes):
            raise ShardingError(
                f"dimension {number} of {type} does not split evenly",
                cause=f"sharding {sharding!r}; its last shards are larger, and other sizes are not known",
                remedy="pad the dimension to a multiple of its shards, or give all sizes",
            )


def _opened(sharding: TensorSharding, note: Any) -> TensorSharding:
    if note is None:
        return sharding
    dims = range(sharding.rank) if isinstance(note, ir.UnitAttr) else _places({"open": note}, "open", sharding.rank)
    told = [replace(dim, open=dim.open or number in dims) for number, dim in enumerate(sharding.dims)]
    return replace(sharding, dims=tuple(told))


def _replicated(sharding: TensorSharding, note: Any) -> TensorSharding:
    if note is None:
        return sharding
    mesh = sharding.mesh
    axes = _places({"replicated": note}, "replicated", len(mesh.axes))
    noted = replace(sharding, replicated=tuple(mesh.axis(mesh.axes[number][0]) for number in sorted(axes)))
    noted.check()
    return noted


def _places(attributes: Mapping[str, Any], key: str, count: int) -> set[int]:
    places = _numbers(attributes, key)
    if any(not 0 <= place < count for place in places):
        raise ShardingError(f"{key} = {places} on a shard.shard", remedy=f"use numbers from 0 to {count - 1}")
    return set(places)


def returns_of(value: Any) -> list[tuple[Any, int]]:
    """The `func.return`s that read a value, and as which operand; none where anything else reads it too."""
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    return uses if all(user.name == "func.return" for user, _ in uses) else []


def is_private(function: Any) -> bool:
    """Whether a function is called from its module only."""
    visibility = function.attributes.get("sym_visibility", None)
    return isinstance(visibility, ir.StringAttr) and visibility.value == "private"


def tensor_rank(type: Any) -> int | None:
    """Dimensions of a ranked tensor type; `None` for any other type."""
    return type.rank if isinstance(type, ir.RankedTensorType) else None


def static_shape(type: Any) -> Shape | None:
    """The shape of a tensor of static shape; `None` for any other type."""
    return TensorType.parse(str(type)).shape
