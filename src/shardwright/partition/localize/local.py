"""Writing what one device computes: a builder that knows the mesh.

A device finds its place from `stablehlo.partition_id`, which is its position in the mesh (row-major): the coordinate
along an axis is one digit of it, `position // stride % size`. Which physical device sits at a position is the
runtime's device assignment, so a module does not say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from shardwright.axes import Axes, axes_size, merge_axes
from shardwright.errors import ShardingError
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding

__all__ = ["Local", "digits", "has_identity", "identity_value", "local_type", "positions", "splat_value"]

_INDEX = TensorType((), "ui32")


@memoize
def local_type(type: TensorType, sharding: TensorSharding | None) -> TensorType:
    """The type of one device's shard; what is not a tensor stays as it is.

    Raises:
        ShardingError: a tensor without a sharding, or one that does not divide evenly.
    """
    if not type.is_tensor:
        return type
    if sharding is None:
        raise ShardingError(f"a value of type {type} has no sharding", remedy="materialize the program first")
    if sharding.rank != type.rank or not sharding.divides(type.dims) or sharding.offsets or sharding.halos:
        raise ShardingError(
            f"sharding {sharding!r} does not cut {type} into equal parts", remedy="pad the dimension before localizing"
        )
    if type.dtype == "index" and any(sharding.axes):
        raise ShardingError(
            f"a tensor of index, {type}, cannot be split",
            cause="StableHLO's slices and collectives take no tensors of index",
            remedy="leave it replicated, or make it a tensor of i64",
        )
    return type.with_shape(sharding.local_shape(type.dims))


def digits(mesh: Mesh, axes: Axes) -> list[tuple[int, int]]:
    """`(stride, size)` of the digits of a position that make up its index along `axes`, neighbours taken together."""
    pairs: list[tuple[int, int]] = []
    for axis in axes:
        stride, size = mesh.digit(axis)
        if size == 1:
            continue
        if pairs and pairs[-1][0] == stride * size:
            size *= pairs.pop()[1]
        pairs.append((stride, size))
    return pairs


@memoize
def positions(mesh: Mesh, partitions: Mesh) -> Any:
    """Position in `mesh` of every partition, as an array; partitions are the positions of `partitions`."""
    count = partitions.listed
    if mesh.device_ids == partitions.device_ids:
        return np.arange(count)
    devices = np.arange(count) if partitions.device_ids is None else np.array(partitions.device_ids)
    return devices if mesh.device_ids is None else np.argsort(np.array(mesh.device_ids))[devices]


def splat_value(text: str) -> str | None:
    """The one element of a splat constant (`dense<0.0> : tensor<4xf32>` → `0.0`), or `None`."""
    if not text.startswith("dense<") or text[6] in '["' or text[6] == ">":
        return None
    return text[6 : text.rindex("> : ")]


class Local(Builder):
    """Appends the ops of one device to a block, and shares index arithmetic within it.

    Attributes:
        mesh: The mesh whose positions are the partition ids.
        constants: Text of every constant written here or in a block around, by value.
        grid: Whether slices by the device's place are written as the `shard` dialect has them, where it has.
    """

    def __init__(self, graph: Graph, ops: list[Op], location: int = 0, *, parent: Local | None = None) -> None:
        """Append to `ops` a program on the mesh of `graph`; channel handles go on counting from `parent`'s."""
        super().__init__(graph, ops, location)
        self.mesh: Mesh = parent.mesh if parent else graph.mesh
        self.constants: dict[int, str] = parent.constants if parent else {}
        self.grid: bool = parent.grid if parent else False
        self._handles: Iterator[int] = parent._handles if parent else count(1)
        self._positions: dict[tuple[int, ...] | None, int] = {}
        self._indices: dict[tuple[Mesh, Axes], int] = {}
        self._firsts: dict[tuple[Mesh, Axes], int] = {}

    def inner(self, ops: list[Op]) -> Local:
        """A builder for a region: it shares handles, and computes indices anew so that nothing is captured."""
        return Local(self.graph, ops, self.location, parent=self)

    def append(
        self,
        signature: Signature,
        operands: Sequence[int],
        shardings: Sequence[TensorSharding | None] = (),
        regions: Any = (),
    ) -> tuple[int, ...]:
        """Append an op (see `Builder.append`), taking note of constants."""
        results = Builder.append(self, signature, operands, shardings, regions)
        if signature.name == "stablehlo.constant":
            self.constants[results[0]] = signature.text("value") or ""
        return results

    def channel(self) -> str:
        """A channel handle that no other collective of the program has."""
        return f"#stablehlo.channel_handle<handle = {next(self._handles)}, type = 1>"

    def position(self, mesh: Mesh | None = None) -> int:
        """This device's position in `mesh`, a `ui32` scalar."""
        mesh = mesh or self.mesh
        value = self._positions.get(mesh.device_ids)
        if value is None:
            value = self._position(mesh)
            self._positions[mesh.device_ids] = value
        return value

    def _position(self, mesh: Mesh) -> int:
        if mesh.device_ids == self.mesh.device_ids:
            return self.emit("partition_id", (), _INDEX)
        return self.looked_up(positions(mesh, self.mesh).tolist(), self.position(self.mesh), "ui32")

    def looked_up(self, table: Sequence[int], index: int, dtype: str = "i32") -> int:
        """The entry of a table that an index names, a scalar."""
        return self.reshape(self.dynamic_slice(self.integers(table, dtype), [index], (1,)), ())

    def axis_index(self, axes: Axes, mesh: Mesh | None = None) -> int:
        """Which shard along `axes` (major to minor) this device holds, an `i32` scalar; computed once a block."""
        mesh = mesh or self.mesh
        key = (mesh, axes)
        value = self._indices.get(key)
        if value is None:
            value = self._indices[key] = self._axis_index(mesh, axes)
        return value

    def _axis_index(self, mesh: Mesh, axes: Axes) -> int:
        index: int | None = None
        for stride, size in digits(mesh, axes):
            digit = self.position(mesh)
            if stride > 1:
                digit = self.binary("divide", digit, self.constant(stride, _INDEX))
            if stride * size < mesh.size:
                digit = self.binary("remainder", digit, self.constant(size, _INDEX))
            if index is not None:
                index = self.binary("multiply", index, self.constant(size, _INDEX))
                digit = self.binary("add", index, digit)
            index = digit
        return self.constant(0, TensorType((), "i32")) if index is None else self.convert(index, "i32")

    def offset(self, axes: Axes, local_size: int, mesh: Mesh | None = None, dtype: str = "i32") -> int:
        """Where this device's shard starts in a dimension cut along `axes` into parts of `local_size` elements."""
        index = self.convert(self.axis_index(axes, mesh), dtype)
        if local_size == 1:
            return index
        return self.binary("multiply", index, self.constant(local_size, TensorType((), dtype)))

    def is_first(self, axes: Axes, mesh: Mesh | None = None) -> int:
        """Whether this device is the first along `axes`, an `i1` scalar: it counts what must count once."""
        mesh = mesh or self.mesh
        key = (mesh, axes)
        value = self._firsts.get(key)
        if value is None:
            index = self.axis_index(axes, mesh)
            value = self._firsts[key] = self.compare(index, self.constant(0, self.type(index)), "EQ")
        return value

    def once(self, value: int, axes: Axes, kind: str, mesh: Mesh | None = None) -> int:
        """`value` on the first device along `axes`, the identity of `kind` elsewhere: a partial of that kind."""
        axes = merge_axes(axes)
        type = self.type(value)
        if axes_size(axes) == 1 or self.is_identity(value, kind):
            return value
        return self.select(self.is_first(axes, mesh), value, self.identity(kind, type))

    def identity(self, kind: str, type: TensorType) -> int:
        """A constant of `type` that changes nothing in a reduction of `kind`."""
        return self.constant(identity_value(kind, type.dtype), type)

    def is_identity(self, value: int, kind: str) -> bool:
        """Whether `value` is known to be the identity of `kind` (`False` where nothing is known)."""
        text = self.constants.get(value)
        splat = splat_value(text) if text is not None else None
        if splat is None or self.type(value).dtype.startswith("complex"):
            return False
        try:
            boolean = {"true": 1.0, "false": 0.0}.get(splat)
            number = _number(splat, self.type(value).dtype) if boolean is None else boolean
        except (KeyError, ValueError):
            return False
        return number == identity_value(kind, self.type(value).dtype)


def _number(text: str, dtype: str) -> float | int:
    """The value of an element's text; hexadecimal is the bits of an infinity (or a NaN, which is no identity)."""
    if not text.startswith("0x"):
        return float(text) if dtype.startswith(("f", "bf")) else int(text)
    bits = int(text, 16)
    infinities = {
        "f16": (0x7C00, 0xFC00),
        "bf16": (0x7F80, 0xFF80),
        "f32": (0x7F800000, 0xFF800000),
        "f64": (0x7FF0000000000000, 0xFFF0000000000000),
    }[dtype]
    return {infinities[0]: float("inf"), infinities[1]: float("-inf")}[bits]


def has_identity(kind: str, dtype: str) -> bool:
    """Whether there is a value of `dtype` that changes nothing in a reduction of a kind that collectives do."""
    return kind not in ("max", "min") or dtype in _FLOATS or dtype.startswith(("i", "ui"))


@memoize
def identity_value(kind: str, dtype: str) -> int | float | bool:
    """What changes nothing in a reduction of `kind` on elements of `dtype`.

    Raises:
        ShardingError: a kind that has no identity (`average`, `generic`).
    """
    if kind in ("sum", "or", "xor"):
        return 0
    if kind == "product":
        return 1
    if kind == "and":
        return _all_ones(dtype)
    if kind in ("max", "min"):
        return _extreme(dtype, lowest=kind == "max")
    raise ShardingError(f"a reduction of kind {kind!r} has no identity", remedy="compute the op unsplit")


def _all_ones(dtype: str) -> int:
    return 1 if dtype == "i1" else (1 << bit_width(dtype)) - 1 if dtype.startswith("ui") else -1


_FLOATS = ("f16", "bf16", "f32", "f64")


def _extreme(dtype: str, lowest: bool) -> int | float:
    if dtype in _FLOATS:
        return float("-inf") if lowest else float("inf")
    if dtype == "i1":
        return 0 if lowest else 1
    if dtype.startswith("ui"):
        return 0 if lowest else (1 << bit_width(dtype)) - 1
    if dtype.startswith("i"):
        half = 1 << (bit_width(dtype) - 1)
        return -half if lowest else half - 1
    raise ShardingError(f"a maximum or minimum of {dtype} cannot be split", remedy="convert to f32 before it")
