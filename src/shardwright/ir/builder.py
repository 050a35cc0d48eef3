"""Appending ops to a graph: what a pass that rebuilds a program writes with."""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.attributes import i64_array, integer
from shardwright.ir.graph import Block, Graph, Op
from shardwright.ir.ops import REDUCTIONS
from shardwright.ir.signature import Body, BodyOp, Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.sharding import TensorSharding

__all__ = ["Builder", "reduction_body", "splat"]


@memoize
def reduction_body(kind: str, dtype: str) -> Body:
    """The combiner of a reduction of `kind` on elements of `dtype`."""
    scalar = TensorType((), dtype)
    combine = BodyOp(REDUCTIONS[kind], (), (0, 1), (scalar,))
    return Body((scalar, scalar), (combine, BodyOp("stablehlo.return", (), (2,), ())))


@memoize
def _signature(
    name: str,
    attributes: tuple[tuple[str, str], ...],
    operands: tuple[TensorType, ...],
    result: TensorType,
    bodies: tuple[Body, ...],
) -> Signature:
    """The signature of all ops that are written so."""
    return Signature(name, attributes, operands, (result,), bodies)


@memoize
def splat(element: str, type: TensorType) -> Signature:
    """A constant of one element, repeated."""
    return Signature("stablehlo.constant", (("value", f"dense<{element}> : {type}"),), (), (type,))


class Builder:
    """Appends ops to `ops`, making values in `graph`. Small helpers name the StableHLO ops that passes write often."""

    def __init__(self, graph: Graph, ops: list[Op], location: int = 0) -> None:
        """Append to `ops`; `location` (settable) goes on every op made."""
        self.graph = graph
        self.ops = ops
        self.location = location

    def type(self, value: int) -> TensorType:
        """Type of a value."""
        return self.graph.types[value]

    def append(
        self,
        signature: Signature,
        operands: Sequence[int],
        shardings: Sequence[TensorSharding | None] = (),
        regions: tuple[Block, ...] = (),
    ) -> tuple[int, ...]:
        """Append an op of this signature; its result values, with shardings where given."""
        results = self.graph.new_values(signature.results, shardings)
        self.ops.append(Op(signature, tuple(operands), results, regions, self.location))
        return results

    def emit(
        self,
        name: str,
        operands: Sequence[int],
        result: TensorType,
        attributes: dict[str, str] | None = None,
        bodies: tuple[Body, ...] = (),
        sharding: TensorSharding | None = None,
    ) -> int:
        """Append an op of one result; `name` may leave out `stablehlo.`."""
        full = name if "." in name else f"stablehlo.{name}"
        types = tuple(map(self.graph.types.__getitem__, operands))
        pairs = tuple(sorted(attributes.items())) if attributes else ()
        return self.append(_signature(full, pairs, types, result, bodies), operands, (sharding,))[0]

    def constant(self, value: int | float | bool, type: TensorType) -> int:
        """A splat constant."""
        return self.append(splat(_literal(value, type.dtype), type), ())[0]

    def integers(self, values: Sequence[int], dtype: str = "i32") -> int:
        """A 1-D integer constant; a scalar constant each with `constant`."""
        type = TensorType((len(values),), dtype)
        return self.emit("constant", (), type, {"value": f"dense<{list(values)}> : {type}"})

    def binary(self, name: str, left: int, right: int) -> int:
        """`add`, `subtract`, `multiply`, `and`, … of two values of one type."""
        return self.emit(name, (left, right), self.type(left))

    def compare(self, left: int, right: int, direction: str) -> int:
        """`compare` with direction `LT`, `GE`, `EQ`, …, of integers."""
        type = TensorType(self.type(left).dims, "i1")
        kind = "UNSIGNED" if self.type(left).dtype.startswith("ui") or self.type(left).dtype == "i1" else "SIGNED"
        attributes = {
            "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
            "compare_type": f"#stablehlo<comparison_type {kind}>",
        }
        return self.emit("compare", (left, right), type, attributes)

    def select(self, predicate: int, yes: int, no: int) -> int:
        """`select`; the predicate may be a scalar."""
        return self.emit("select", (predicate, yes, no), self.type(yes))

    def convert(self, value: int, dtype: str) -> int:
        """The value with another element type (itself if it has that type)."""
        type = self.type(value)
        return value if type.dtype == dtype else self.emit("convert", (value,), TensorType(type.dims, dtype))

    def broadcast(self, value: int, shape: tuple[int, ...], dims: Sequence[int] = ()) -> int:
        """`broadcast_in_dim` to `shape`, operand dimension `i` at result dimension `dims[i]`."""
        type = self.type(value).with_shape(shape)
        return self.emit("broadcast_in_dim", (value,), type, {"broadcast_dimensions": i64_array(dims)})

    def reshape(self, value: int, shape: tuple[int, ...]) -> int:
        """`reshape` (the value itself where the shape is the same)."""
        type = self.type(value)
        return value if type.dims == shape else self.emit("reshape", (value,), type.with_shape(shape))

    def transpose(self, value: int, dims: Sequence[int]) -> int:
        """`transpose`: dimension `i` of the result is `dims[i]` of the value."""
        type = self.type(value)
        result = type.with_shape(tuple(type.dims[dim] for dim in dims))
        return self.emit("transpose", (value,), result, {"permutation": i64_array(dims)})

    def iota(self, type: TensorType, dimension: int) -> int:
        """`iota` along a dimension."""
        return self.emit("iota", (), type, {"iota_dimension": integer(dimension)})

    def dynamic_slice(self, value: int, starts: Sequence[int], sizes: tuple[int, ...]) -> int:
        """`dynamic_slice` of `sizes` at scalar start values, one a dimension."""
        type = self.type(value).with_shape(sizes)
        return self.emit("dynamic_slice", (value, *starts), type, {"slice_sizes": i64_array(sizes)})


def _literal(value: int | float | bool, dtype: str) -> str:
    if dtype == "i1":
        return "true" if value else "false"
    if dtype.startswith(("f", "bf")):
        if value in (float("inf"), float("-inf")) or value != value:
            return _special(float(value), dtype)
        return repr(float(value)) if "e" not in repr(float(value)) else f"{float(value):.17e}"
    if dtype.startswith("complex"):
        return f"({float(value):.6e}, 0.0)"
    return str(int(value))


def _special(value: float, dtype: str) -> str:
    bits = {
        "f16": (0x7C00, 0xFC00, 0x7E00),
        "bf16": (0x7F80, 0xFF80, 0x7FC0),
        "f32": (0x7F800000, 0xFF800000, 0x7FC00000),
        "f64": (0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000),
    }[dtype]
    index = 2 if value != value else (0 if value > 0 else 1)
    return hex(bits[index]).upper().replace("0X", "0x")
