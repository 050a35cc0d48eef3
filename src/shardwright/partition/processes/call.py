"""One op of a per-device program while it is lowered: its attributes checked, its operands lowered.

Whatever is wrong raises a `ShardingError`; the walk adds the op and its location.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.graph import Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.mesh import Mesh
from shardwright.partition.localize.local import Local, splat_value

__all__ = ["DYNAMIC", "Call", "Sent", "State", "lowered_type", "mesh_axes"]

DYNAMIC = -(1 << 63)
"""What stands in a list of static sizes for one that is an operand."""

_SCALAR = re.compile(r"(index|i\d+|ui\d+|f\d+\w*|bf16|complex<.*>)")


def lowered_type(type: TensorType) -> TensorType:
    """The type of a lowered value: scalars become tensors of rank 0, `index` becomes `i64`.

    Raises:
        ShardingError: a type of the dialect, which no device holds.
    """
    dtype = "i64" if type.dtype == "index" else type.dtype
    if type.shape is not None:
        return TensorType(type.shape, dtype)
    if _SCALAR.fullmatch(dtype):
        return TensorType((), dtype)
    if dtype.startswith(("!shard.", "!mesh.")):
        raise ShardingError(
            f"a value of type {dtype} cannot be passed on",
            cause="a per-device program holds no shardings",
            remedy="define the sharding in the block that uses it",
        )
    return type


@dataclass(frozen=True, slots=True)
class Sent:
    """What a `shard.send` has on its way: the value, its destination in each group, and the op."""

    value: int
    destination: int
    op: Op


@dataclass(slots=True)
class State:
    """What is known at a point of a block.

    Attributes:
        ctx: Builder of the block.
        meshes: Grids by symbol.
        cluster: Symbol of the grid for ops that name none, or nothing.
        values: Lowered value of each value of the program.
        shardings: The op that defines each value of type `!shard.sharding`.
        sent: Open sends of the block, first to last, by grid, axes and type.
    """

    ctx: Local
    meshes: Mapping[str, Mesh]
    cluster: str = ""
    values: dict[int, int] = field(default_factory=dict)
    shardings: dict[int, Op] = field(default_factory=dict)
    sent: dict[tuple[Mesh, Axes, TensorType], deque[Sent]] = field(default_factory=dict)

    def inner(self, ops: list[Op]) -> State:
        """The state at the start of a region that is written to `ops`."""
        return State(self.ctx.inner(ops), self.meshes, self.cluster, self.values, self.shardings)


@dataclass(frozen=True, slots=True)
class Call:
    """An op and the state in which it stands."""

    op: Op
    state: State

    @property
    def ctx(self) -> Local:
        """The builder."""
        return self.state.ctx

    @property
    def signature(self) -> Signature:
        """The op's signature, with the types of the program."""
        return self.op.signature

    @property
    def operands(self) -> tuple[int, ...]:
        """The lowered operands."""
        return self.lowered(self.op.operands)

    def lowered(self, values: Sequence[int]) -> tuple[int, ...]:
        """The lowered form of values of the program."""
        missing = next((value for value in values if value not in self.state.values), None)
        if missing is None:
            return tuple(self.state.values[value] for value in values)
        type = self.signature.operands[self.op.operands.index(missing)]
        raise ShardingError(f"a value of type {type} cannot be computed with on a device")

    @property
    def value(self) -> int:
        """The first operand, lowered."""
        if not self.op.operands:
            raise ShardingError("the op has no operand")
        return self.lowered(self.op.operands[:1])[0]

    @property
    def result(self) -> TensorType:
        """The type of the first result, lowered."""
        if not self.signature.results:
            raise ShardingError("the op has no result")
        return lowered_type(self.signature.results[0])

    @property
    def mesh(self) -> Mesh:
        """The grid that the op names, or the function, or else the only one there is."""
        symbol = self.signature.get("grid") or self.state.cluster
        if not symbol and len(self.state.meshes) == 1:
            return next(iter(self.state.meshes.values()))
        mesh = self.state.meshes.get(symbol) if isinstance(symbol, str) else None
        if mesh is None:
            raise ShardingError(
                f"there is no grid @{symbol}" if symbol else "the op names no grid",
                cause=f"grids: {', '.join('@' + name for name in self.state.meshes) or 'none'}",
                remedy="name a shard.grid of the module",
            )
        return mesh

    @property
    def group(self) -> Axes:
        """The axes of the op's groups, outer to inner."""
        return self.axes("grid_axes")

    def axes(self, name: str) -> Axes:
        """The axes that attribute `name` lists by number; none where it is absent."""
        return mesh_axes(self.mesh, self.integers(name, ()))

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The attribute `name`, a list of integers; `default` where it is absent."""
        entries = self.signature.get(name, default)
        if not isinstance(entries, tuple) or not all(isinstance(entry, int) for entry in entries):
            raise ShardingError(f"attribute {name} is no list of integers", cause=_described(entries))
        return entries

    def integer(self, *names: str) -> int:
        """The integer attribute that has the first of `names` the op has."""
        number = next((value for value in map(self.signature.get, names) if value is not None), None)
        if not isinstance(number, int) or isinstance(number, bool):
            raise ShardingError(f"attribute {names[0]} is no integer", cause=_described(number))
        return number

    def dimension(self, *names: str) -> int:
        """The attribute as a dimension of the first operand."""
        number, type = self.integer(*names), self.ctx.type(self.value)
        if not 0 <= number < type.rank:
            raise ShardingError(f"{names[0]} = {number} is no dimension of {type}", remedy="dimensions count from 0")
        return number

    def mixed(self, name: str, operands: Sequence[int]) -> list[tuple[int | None, int | None]]:
        """Sizes given in attribute `name`, or where it says so by `operands`: `(number, value)`, one of them `None`.

        An operand that is a constant is given as its number.
        """
        values = deque(self.lowered(operands))
        sizes: list[tuple[int | None, int | None]] = []
        for entry in self.integers(name, ()):
            if entry != DYNAMIC:
                sizes.append((entry, None))
                continue
            if not values:
                raise ShardingError(f"attribute {name} has more dynamic entries than the op has operands for them")
            value = values.popleft()
            known = self.known(value)
            sizes.append((known, None) if known is not None else (None, value))
        if values:
            raise ShardingError(f"attribute {name} has fewer dynamic entries than the op has operands for them")
        return sizes

    def static(self, name: str, operands: Sequence[int]) -> tuple[int, ...]:
        """As `mixed`, all of them numbers."""
        numbers = []
        for number, _ in self.mixed(name, operands):
            if number is None:
                raise ShardingError(
                    f"{name} is known when the program runs only",
                    cause="the groups and shapes of a collective are fixed when it is compiled",
                    remedy="give constants",
                )
            numbers.append(number)
        return tuple(numbers)

    def member(self, name: str) -> int:
        """Number in its group of the device whose multi-index along the group's axes is attribute `name`."""
        axes, indices = self.group, self.static(name, self.op.operands[1:])
        if len(indices) != len(axes) or any(not 0 <= i < axis.size for i, axis in zip(indices, axes, strict=False)):
            raise ShardingError(
                f"{name} = {list(indices)} is no device of a group of shape {[axis.size for axis in axes]}",
                remedy="give one index for each of grid_axes, counted from 0",
            )
        number = 0
        for index, axis in zip(indices, axes, strict=True):
            number = number * axis.size + index
        return number

    def known(self, value: int) -> int | None:
        """The integer that a lowered scalar is known to be, or `None`."""
        text = splat_value(self.ctx.constants.get(value, ""))
        return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def mesh_axes(mesh: Mesh, numbers: Sequence[int]) -> Axes:
    """The axes of a grid by their numbers.

    Raises:
        ShardingError: no such axis, or one twice.
    """
    if any(not 0 <= number < len(mesh.axes) for number in numbers) or len(set(numbers)) != len(numbers):
        raise ShardingError(
            f"{list(numbers)[:8]} are no different axes of grid @{mesh.name}",
            cause=f"it has the axes 0 to {len(mesh.axes) - 1}",
            remedy="list each axis once",
        )
    return tuple(mesh.axis(mesh.axes[number][0]) for number in numbers)


def _described(value: Any) -> str:
    return "it is absent" if value is None else f"it is {value}"
