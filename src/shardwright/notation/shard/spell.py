"""A sharding of the model as the ops of the `shard` dialect: what to create, in attributes."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any

from shardwright.axes import axes_size
from shardwright.errors import ShardingError
from shardwright.ir.context import ir, parse_attribute
from shardwright.notation.notation import Shape
from shardwright.notation.shard import sharding as shard
from shardwright.notation.shard.read import static_shape
from shardwright.sharding import TensorSharding

__all__ = ["Spelled", "spell"]

_PRINTED = re.compile(
    r"(?P<dialect>shard|mesh)\.sharding .* split_axes = (?P<axes>\[.*?\]\]|\[\])"
    r"( partial = (?P<kind>\w+) (?P<partial>\[.*?\]))?"
    r"( halo_sizes = (?P<halos>\[.*?\]))?( sharded_dims_offsets = (?P<offsets>\[.*?\]))?"
)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A sharding as ops.

    Attributes:
        text: Its `shard.sharding` in custom syntax, by which it is known.
        name: The op: `shard.sharding`, or `mesh.sharding` of a partial tensor.
        attributes: The attributes of this op.
        notes: The attributes of a `shard.shard` to it: `open` and `replicated`.
        says_something: Whether it says more than that propagation may do what it likes.
    """

    text: str
    name: str
    attributes: dict[str, Any]
    notes: dict[str, Any]
    says_something: bool


def spell(sharding: TensorSharding, type: Any) -> Spelled:
    """How the dialect states that a tensor of `type` has this sharding.

    Raises:
        ShardingError: parts of axes, priorities, and what else `shard.print_sharding` refuses.
    """
    if any(dim.priority for dim in sharding.dims):
        raise ShardingError(
            "the shard dialect cannot express priorities",
            cause=f"sharding {sharding!r}",
            remedy="propagate first, or take the priorities away",
        )
    shape = static_shape(type)
    text = shard.print_sharding(sharding.closed(), shape)
    if shape is not None:
        text = text.removesuffix(_default_offsets(sharding, shape))
    opened = [number for number, dim in enumerate(sharding.dims) if dim.open]
    says = bool(sharding.used_axes or sharding.replicated or sharding.partial or len(opened) < sharding.rank)
    return Spelled(text, *_op_of(text, sharding.mesh.name), _notes(sharding, opened), says)


def _default_offsets(sharding: TensorSharding, shape: Shape) -> str:
    """The offsets that are not told, since the dialect cuts so by itself: the last shards one larger."""
    if not sharding.offsets:
        return ""
    cuts = [shard.trailing_cuts(shape[n], axes_size(dim.axes)) for n, dim in enumerate(sharding.dims) if dim.axes]
    return f" sharded_dims_offsets = {list(itertools.chain(*cuts))}"


def _op_of(text: str, grid: str) -> tuple[str, dict[str, Any]]:
    """The op that `shard.print_sharding` printed: its name and attributes."""
    printed = _PRINTED.fullmatch(text)
    assert printed is not None, text
    dialect = printed["dialect"]
    attributes = {
        "grid" if dialect == "shard" else "mesh": ir.FlatSymbolRefAttr.get(grid),
        "split_axes": parse_attribute(f"#{dialect}<axisarray{printed['axes']}>"),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
    }
    if printed["partial"]:
        attributes["partial_axes"] = ir.DenseI16ArrayAttr.get(_listed(printed["partial"]))
        attributes["partial_type"] = parse_attribute(f"#mesh<partial {printed['kind']}>")
    for key, group in (("static_halo_sizes", "halos"), ("static_sharded_dims_offsets", "offsets")):
        if printed[group]:
            attributes[key] = ir.DenseI64ArrayAttr.get(_listed(printed[group]))
    return f"{dialect}.sharding", attributes


def _listed(text: str) -> list[int]:
    return [int(number) for number in text[1:-1].split(",")]


def _notes(sharding: TensorSharding, opened: list[int]) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    if opened:
        some = len(opened) < sharding.rank
        notes["open"] = ir.DenseI64ArrayAttr.get(opened) if some else ir.UnitAttr.get()
    if sharding.replicated:
        for axis in sharding.replicated:
            if not sharding.mesh.is_full(axis):
                raise ShardingError(
                    "the shard dialect cannot express parts of a mesh axis",
                    cause=f"sharding {sharding!r} of {sharding.mesh!r}",
                    remedy="give the mesh an axis for each part",
                )
        axes = [sharding.mesh.order[axis.name] for axis in sharding.replicated]
        notes["replicated"] = ir.DenseI64ArrayAttr.get(axes)
    return notes
