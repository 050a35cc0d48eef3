"""The values of a padded program: the same data in several sizes, each made where it is first read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from shardwright.axes import Axes
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import Builder
from shardwright.ir.graph import Graph, Op
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.localize.local import identity_value, splat_value
from shardwright.partition.meshes import mesh_of_program
from shardwright.partition.padding.ops import Seen
from shardwright.partition.scope import Scope
from shardwright.sharding import TensorSharding, replicated

__all__ = ["Versions"]

Shape = tuple[int, ...]


class Versions:
    """Which values of the padded program stand for a value of the program that it is made from, one for each shape.

    Attributes:
        builder: What writes the padded program.
        scope: What is made in a region is known until its end.
        reader: The op for which values are read, if it is one that cannot be computed on their padded dimensions.
        resizes: The ops that pad and cut, each with the `reader` for which it cuts padding off.
        relied: The values made by padding whose zeros something reads.
    """

    def __init__(self, source: Graph, builder: Builder) -> None:
        """Nothing known yet of the values of `source`."""
        self.builder = builder
        self.scope = Scope()
        self.reader = ""
        self.resizes: dict[Op, str] = {}
        self.relied: set[int] = set()
        self._source = source
        self._mesh = mesh_of_program(source)
        self._numbers: dict[int, dict[Shape, int]] = {}
        self._makers: dict[int, tuple[Signature, tuple[int, ...]]] = {}
        self._zeros: dict[int, frozenset[int]] = {}
        self._zeros_of: dict[int, int] = {}
        self._shared: dict[tuple[Any, ...], int] = {}
        self._masked: dict[int, dict[tuple[Seen, int | None], int]] = {}

    def define(self, value: int, number: int) -> None:
        """Say that `number` is a value of the source."""
        self._numbers[value] = {self.builder.type(number).dims: number}

    def define_by(self, value: int, signature: Signature, operands: tuple[int, ...]) -> None:
        """Say how a value is made, in any shape: a constant, an iota, or a broadcast scalar."""
        self._numbers[value], self._makers[value] = {}, (signature, operands)

    def alias(self, value: int, other: int) -> None:
        """Say that a value is another one."""
        self._numbers[value] = self._numbers[other]
        if other in self._makers:
            self._makers[value] = self._makers[other]

    def zeros(self, number: int) -> frozenset[int]:
        """The dimensions of a value along which its padding is known to be zero."""
        return self._zeros.get(number, frozenset())

    def set_zeros(self, number: int, dims: frozenset[int], source: int) -> None:
        """Say that the padding of a value along `dims` is zero, as long as that of `source` is."""
        if dims:
            self._zeros[number] = dims
            self._zeros_of[number] = self._zeros_of.get(source, source)

    def read(self, value: int, shape: Shape, sharding: TensorSharding | None = None) -> int:
        """The value in a shape, made of another one if need be: to lie so, else as the value does in the source."""
        numbers = self._numbers[value]
        number = numbers.get(shape)
        if number is None:
            number = self._made(value, shape) if value in self._makers else None
            if number is None:
                number = self._converted(self._any(value), value, shape, sharding or self._lies(self._source, value))
            self.scope.add(numbers, shape, number)
        return number

    def _any(self, value: int) -> int:
        """The first version of a value, made in its own shape where there is none."""
        numbers = self._numbers[value]
        return next(iter(numbers.values())) if numbers else self.read(value, self._source.types[value].dims)

    def _made(self, value: int, shape: Shape) -> int | None:
        """A value that can be made in any shape, in this one; `None` for a constant that is no splat."""
        signature, operands = self._makers[value]
        (type,) = signature.results
        if type.dims != shape:
            wider = type.with_shape(shape)
            text = signature.text("value")
            splat = None if text is None else splat_value(text)
            if text is not None and splat is None:
                return None
            signature = signature.replace(results=(wider,))
            if splat is not None:
                signature = signature.replace(value=f"dense<{splat}> : {wider}")
        read = [self.read(operand, ()) for operand in operands]
        return self.builder.append(signature, read, (self._source.shardings[value],))[0]

    def _converted(self, number: int, value: int, shape: Shape, sharding: TensorSharding) -> int:
        """A value without the padding that is not in `shape`, and with zeros for what is not in it yet.

        It is cut first, but where other dimensions are split than in the source, before or behind: then it grows along
        what is whole before, and is cut along what is whole behind.
        """
        had, stated = self.builder.type(number), self._lies(self._source, value)
        if sharding == stated and self.builder.graph.shardings[number] in (None, stated):
            number = self._cut_to(number, value, tuple(map(min, had.dims, shape)), sharding)
        number = self._grown_to(number, value, tuple(map(max, self.builder.type(number).dims, shape)), sharding)
        return self._cut_to(number, value, shape, sharding)

    def _grown_to(self, number: int, value: int, shape: Shape, sharding: TensorSharding) -> int:
        """A value with zeros behind what it is."""
        had, own = self.builder.type(number), self._source.types[value].dims
        if had.dims == shape:
            return number
        zero, none = self.zero(sharding, had.dtype), i64_array([0] * len(shape))
        high = i64_array([new - old for new, old in zip(shape, had.dims, strict=True)])
        attributes = {"edge_padding_low": none, "edge_padding_high": high, "interior_padding": none}
        type, lies = had.with_shape(shape), sharding.evenly_dividing(shape)
        number = self.builder.emit("pad", (number, zero), type, attributes, sharding=lies)
        self.resizes[self.builder.ops[-1]] = ""
        added = [dim for dim, size in enumerate(had.dims) if size < shape[dim] and size == own[dim]]
        self.set_zeros(number, frozenset(added), number)
        return number

    def _cut_to(self, number: int, value: int, shape: Shape, sharding: TensorSharding) -> int:
        """A value without padding behind `shape`."""
        if self.builder.type(number).dims == shape:
            return number
        number = self.cut(number, shape, sharding.evenly_dividing(shape))
        self.resizes[self.builder.ops[-1]] = (
            self.reader if shape == self._source.types[value].dims else "stablehlo.slice"
        )
        return number

    def cut(self, number: int, shape: Shape, sharding: TensorSharding) -> int:
        """The part of a value at the beginning of its dimensions that has this shape."""
        attributes = {
            "start_indices": i64_array([0] * len(shape)),
            "limit_indices": i64_array(shape),
            "strides": i64_array([1] * len(shape)),
        }
        type = self.builder.type(number).with_shape(shape)
        return self.builder.emit("slice", (number,), type, attributes, sharding=sharding)

    # --- what padding holds

    def masked(self, number: int, seen: Seen, value: int, initial: int | None) -> int:
        """A value whose padding holds what an op combines without a trace.

        Arguments:
            number: The value, padded.
            seen: The padding that the op would see.
            value: The value of the source.
            initial: The initial value that padding is to hold, where that is no identity.
        """
        own, shape = self._source.types[value].dims, self.builder.type(number).dims
        dims = [dim for dim in seen.dims if shape[dim] > own[dim]]
        if seen.kind == "sum" and self.zeros(number).issuperset(dims):
            if dims:
                self.relied.add(self._zeros_of[number])
            return number
        known = self._masked.setdefault(number, {})
        key = (Seen(0, tuple(dims), seen.kind), initial)
        if key not in known:
            sharding = self._lies(self._source, value)
            made = self._mask(number, dims, own, self._filling(number, seen.kind, initial, sharding), sharding)
            self.scope.add(known, key, made)
            if seen.kind == "sum":
                self.set_zeros(made, self.zeros(number).union(dims), number)
        return known[key]

    def limited(self, number: int, vector: int, limits: tuple[int | None, ...]) -> int:
        """Indices of which no component, along dimension `vector`, is above its limit, where that is given."""
        type, sharding = self.builder.type(number), self.lies(number)
        most = int(identity_value("min", type.dtype))
        values = [most if limit is None else min(limit, most) for limit in limits]
        if len(set(values)) == 1:
            bound = self.builder.constant(values[0], type)
        else:
            row = self._stated(self.builder.integers(values, type.dtype), replicated(sharding.mesh, 1))
            bound = self.builder.broadcast(row, type.dims, (vector,))
        self._stated(bound, sharding)
        return self._stated(self.builder.binary("minimum", number, bound), sharding)

    def _filling(self, number: int, kind: str | None, initial: int | None, sharding: TensorSharding) -> int:
        """A tensor of what padding is to hold."""
        type = self.builder.type(number)
        if kind is not None:
            return self._stated(self.builder.constant(identity_value(kind, type.dtype), type), sharding)
        assert initial is not None
        scalar = self._stated(self.builder.convert(initial, type.dtype), replicated(sharding.mesh, 0))
        return self._stated(self.builder.broadcast(scalar, type.dims), sharding)

    def _mask(self, number: int, dims: Sequence[int], own: Shape, filling: int, sharding: TensorSharding) -> int:
        """`number` where its index along each of `dims` is below its own size, `filling` elsewhere."""
        shape = self.builder.type(number).dims
        for dim in dims:
            row = self._once((shape[dim], own[dim], sharding.axes[dim]), partial(self._row, sharding))
            inside = self._stated(self.builder.broadcast(row, shape, (dim,)), sharding.with_axes(sharding.axes))
            number = self._stated(self.builder.select(inside, number, filling), sharding)
        return number

    def _row(self, sharding: TensorSharding, size: int, own: int, axes: Axes) -> int:
        """Of each index of a dimension that is padded to `size`, whether it is below its own size."""
        row = sharding.with_axes((axes,))
        type = TensorType((size,), "i32" if size < 1 << 31 else "i64")
        index = self._stated(self.builder.iota(type, 0), row)
        limit = self._stated(self.builder.constant(own, type), row)
        return self._stated(self.builder.compare(index, limit, "LT"), row)

    def zero(self, sharding: TensorSharding, dtype: str) -> int:
        """A scalar zero on the mesh of a sharding."""
        return self._once((dtype,), partial(self._zero, sharding))

    def _zero(self, sharding: TensorSharding, dtype: str) -> int:
        made = self.builder.constant(identity_value("sum", dtype), TensorType((), dtype))
        return self._stated(made, replicated(sharding.mesh, 0))

    def before(self, dim: int, rows: int, first: int, second: int) -> int:
        """The rows of `first` below a number along a dimension, and those of `second` from there on."""
        shape, sharding = self.builder.type(first).dims, self.lies(first)
        return self._mask(first, (dim,), (*shape[:dim], rows, *shape[dim + 1 :]), second, sharding)

    def zeroed(self, dim: int, rows: int, number: int) -> int:
        """The rows of a value below a number along a dimension, and zeros from there on."""
        return self.before(dim, rows, number, self._filling(number, "sum", None, self.lies(number)))

    def lies(self, number: int) -> TensorSharding:
        """How a value of the padded program lies."""
        return self._lies(self.builder.graph, number)

    def _lies(self, graph: Graph, value: int) -> TensorSharding:
        """How a value lies; one of which nothing is stated, as where a program was not propagated, is whole."""
        sharding = graph.shardings[value]
        if sharding is None or not sharding.mesh.axes:
            return replicated(self._mesh, graph.types[value].rank)
        return sharding

    def _once(self, key: tuple[Any, ...], make: Callable[..., int]) -> int:
        """What `make` makes of `key`, made once in a region."""
        if key not in self._shared:
            self.scope.add(self._shared, key, make(*key))
        return self._shared[key]

    def _stated(self, number: int, sharding: TensorSharding) -> int:
        """`number`, which lies so."""
        self.builder.graph.shardings[number] = sharding
        return number
