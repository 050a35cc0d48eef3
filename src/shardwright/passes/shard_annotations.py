"""`shard.shard` ops of a function: what they say of values and uses, and writing more of them.

Source: MLIR's `shard` dialect, ShardOp and ShardingOp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from shardwright.ir.context import context, ir, parse_attribute, parse_type
from shardwright.notation.shard.read import read_grid
from shardwright.passes.module_ops import error_at, operations
from shardwright.passes.shard_dialect import GRIDS

__all__ = ["GridSharding", "ShardAnnotations", "grid_shapes"]

_SHARDS = tuple(f"{dialect}.shard" for dialect in GRIDS)
_SHARDINGS = tuple(f"{dialect}.sharding" for dialect in GRIDS)
_GETS = tuple(f"{dialect}.get_sharding" for dialect in GRIDS)
_GRIDS = ("shard.grid", "mesh.grid", "mesh.mesh")
_NUMBER, _DIM = re.compile(r"\d+"), re.compile(r"\[([^\[\]]*)\]")
_AXES = re.compile(r"\[(\[(\d+(, *\d+)*)?\](, *\[(\d+(, *\d+)*)?\])*)?\]")
_FOR_USERS = "annotate_for_users"


@dataclass(frozen=True, slots=True, eq=False)
class GridSharding:
    """What a sharding says.

    Attributes:
        grid: The name of the grid.
        axes: The grid axes of every dimension, as far as they are written: what is not written may still be split.
        more: Halos and offsets, as text.
    """

    grid: str
    axes: tuple[tuple[int, ...], ...]
    more: str = ""

    @classmethod
    def of(cls, grid: str, axes: Sequence[tuple[int, ...]]) -> GridSharding:
        """Of these axes, empty dimensions at the end left out; one stays, unless there are no dimensions."""
        kept = len(axes)
        while kept > 1 and not axes[kept - 1]:
            kept -= 1
        return cls(grid, tuple(axes[:kept]))

    def agrees(self, other: GridSharding) -> bool:
        """Whether both say the same, empty dimensions at the end aside."""
        longer = zip_longest(self.axes, other.axes, fillvalue=())
        return (self.grid, self.more) == (other.grid, other.more) and all(one == two for one, two in longer)


def grid_shapes(module: ir.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of the grids of a module by name, as far as they are known when it is compiled."""
    shapes: dict[str, tuple[int, ...]] = {}
    for view in module.body.operations:
        if view.operation.name in _GRIDS:
            name, mesh = read_grid(view.operation)
            if mesh is not None:
                shapes[name] = tuple(size for _, size in mesh.axes)
    return shapes


class ShardAnnotations:
    """The annotations of one function."""

    def __init__(self, function: Any) -> None:
        """Find out which of the dialect's names is in use."""
        names = {op.name.partition(".")[0] for op in operations(function) if op.name in _SHARDINGS}
        self.dialect = "mesh" if names == {"mesh"} else "shard"
        self._splits: dict[Any, GridSharding] = {}

    # Reading

    def of_use(self, value: Any) -> tuple[bool, GridSharding] | None:
        """What is said of an operand, and whether it has to be: it is said for users."""
        shard = _shard_of(value)
        return None if shard is None else (_FOR_USERS in shard.attributes, self._split(shard))

    def of_result(self, value: Any) -> tuple[bool, GridSharding] | None:
        """What is said of a result, and whether it has to be: it is said of the value itself.

        Of several things said for users, the last one.
        """
        shards = [use.owner.operation for use in value.uses if use.owner.operation.name in _SHARDS]
        for shard in shards:
            if _FOR_USERS not in shard.attributes:
                return (True, self._split(shard)) if len(list(value.uses)) == 1 else None
        return (False, self._split(shards[0])) if shards else None

    def reshards(self, handle: Any, needed: Sequence[GridSharding]) -> int:
        """What the splits needed change: 0 nothing, 1 what is said elsewhere, 2 what is said for this op."""
        kind = 0
        operands = list(handle.operands)
        for value, split in zip(operands, needed, strict=False):
            shard = _shard_of(value)
            if shard is not None and not self._split(shard).agrees(split):
                kind = max(kind, 2 if _FOR_USERS in shard.attributes else 1)
        for value, split in zip(handle.results, needed[len(operands) :], strict=True):
            for use in value.uses:
                shard = use.owner.operation
                if shard.name in _SHARDS and not self._split(shard).agrees(split):
                    kind = max(kind, 1 if _FOR_USERS in shard.attributes else 2)
        return kind

    def _split(self, shard: Any) -> GridSharding:
        """What a `shard.shard` says."""
        sharding = _maker(shard, 1)
        while sharding is not None and sharding.name in _GETS:
            source = _maker(sharding, 0)
            sharding = _maker(source, 1) if source is not None and source.name in _SHARDS else None
        if sharding is None or sharding.name not in _SHARDINGS:
            raise error_at(
                shard,
                "the sharding of an annotation is not known",
                cause="it is not the result of a shard.sharding op",
                remedy="name the sharding with shard.sharding in the same function",
            )
        split = self._splits.get(sharding)
        if split is None:
            split = self._splits[sharding] = _read(sharding)
        return split

    # Writing

    def write(self, handle: Any, needed: Sequence[GridSharding]) -> None:
        """Annotate an op's results, then its operands, wherever this is not said yet."""
        operands = list(handle.operands)
        for value, split in zip(handle.results, needed[len(operands) :], strict=True):
            self._annotate_result(value, split)
        for number, split in enumerate(needed[: len(operands)]):
            self._annotate_operand(handle, number, split)

    def _annotate_result(self, value: Any, split: GridSharding) -> None:
        made: Any = None
        for user in [use.owner.operation for use in value.uses]:
            is_shard = user.name in _SHARDS
            for_value = is_shard and _FOR_USERS not in user.attributes
            if for_value and self._split(user).agrees(split):
                made = made or user
                continue
            if made is None:
                owner = value.owner.operation
                sharding = self._sharding(split, value, owner)
                sharding.owner.operation.move_after(owner)
                made = self._shard(value, sharding, owner, for_users=False)
                made.move_after(sharding.owner.operation)
            _replace(user, value, made.results[0])
            if for_value:
                self._reshard(made)

    def _reshard(self, made: Any) -> None:
        """What was said of a value before is said of what users of its new annotation get."""
        again = self._shard(made.results[0], made.operands[1], made, for_users=True)
        again.move_after(made)
        for user in [use.owner.operation for use in made.results[0].uses]:
            if user != again:
                _replace(user, made.results[0], again.results[0])

    def _annotate_operand(self, handle: Any, number: int, split: GridSharding) -> None:
        value = handle.operands[number]
        source = _shard_of(value)
        if source is not None and _FOR_USERS in source.attributes and self._split(source).agrees(split):
            return
        sharding = self._sharding(split, value, handle)
        made = self._shard(value, sharding, handle, for_users=True)
        _replace(handle, value, made.results[0])
        if source is None or _FOR_USERS not in source.attributes:
            return
        between = self._shard(value, sharding, made, for_users=False)
        _replace(made, value, between.results[0])

    def _sharding(self, split: GridSharding, value: Any, before: Any) -> Any:
        """The result of a new `shard.sharding`, which stands before an op."""
        axes = [list(axes) for axes in split.axes]
        attributes = {
            GRIDS[self.dialect]: ir.FlatSymbolRefAttr.get(split.grid, context=context()),
            "split_axes": parse_attribute(f"#{self.dialect}<axisarray{axes}>"),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0], context=context()),
        }
        type = parse_type(f"!{self.dialect}.sharding")
        made = ir.Operation.create(
            f"{self.dialect}.sharding",
            results=[type],
            attributes=attributes,
            loc=_location(value),
            ip=ir.InsertionPoint(before),
        )
        self._splits[made] = split
        return made.results[0]

    def _shard(self, value: Any, sharding: Any, before: Any, *, for_users: bool) -> Any:
        attributes: dict[str, ir.Attribute] = {}
        if for_users:
            attributes[_FOR_USERS] = ir.UnitAttr.get(context=context())
        return ir.Operation.create(
            f"{self.dialect}.shard",
            results=[value.type],
            operands=[value, sharding],
            attributes=attributes,
            loc=_location(value),
            ip=ir.InsertionPoint(before),
        )


def _maker(op: Any, number: int) -> Any | None:
    """The op that makes an operand, if there is such an operand and one makes it."""
    if number >= len(op.operands) or isinstance(op.operands[number], ir.BlockArgument):
        return None
    return op.operands[number].owner.operation


def _shard_of(value: Any) -> Any | None:
    """The `shard.shard` that a value is the result of."""
    if isinstance(value, ir.BlockArgument):
        return None
    owner = value.owner.operation
    return owner if owner.name in _SHARDS else None


def _read(sharding: Any) -> GridSharding:
    attributes = sharding.attributes
    grid = attributes.get(GRIDS[sharding.name.partition(".")[0]])
    text = str(attributes["split_axes"]) if "split_axes" in attributes else ""
    listed = text[text.find("[") : text.rfind("]") + 1]
    if not isinstance(grid, ir.FlatSymbolRefAttr) or not _AXES.fullmatch(listed):
        raise error_at(
            sharding,
            f"a malformed {sharding.name}",
            cause=f"split_axes = {text[:200] or 'nothing'}",
            remedy="write %s = shard.sharding @g split_axes = [[0], []]",
        )
    axes = [tuple(int(axis) for axis in _NUMBER.findall(dim)) for dim in _DIM.findall(listed[1:-1])]
    more = [str(attributes[key]) for key in ("static_halo_sizes", "static_sharded_dims_offsets") if key in attributes]
    return GridSharding(grid.value, tuple(axes), "; ".join(text for text in more if text != "array<i64>"))


def _location(value: Any) -> Any:
    return value.location if isinstance(value, ir.BlockArgument) else value.owner.location


def _replace(op: Any, old: Any, new: Any) -> None:
    """Let an op read `new` wherever it reads `old`."""
    for number, value in enumerate(op.operands):
        if value == old:
            op.operands[number] = new
