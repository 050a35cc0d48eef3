"""Arithmetic with indices: the ops of `arith` and `tensor` that a program computes its offsets with."""

from __future__ import annotations

from shardwright.errors import ShardingError
from shardwright.ir.attributes import integer
from shardwright.ir.opaque import dense_array
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.processes.call import Call, lowered_type
from shardwright.partition.processes.registry import process

__all__: list[str] = []

_SIGNED = {
    "arith.addi": "add",
    "arith.subi": "subtract",
    "arith.muli": "multiply",
    "arith.divsi": "divide",
    "arith.remsi": "remainder",
    "arith.minsi": "minimum",
    "arith.maxsi": "maximum",
}
_UNSIGNED = {
    "arith.divui": "divide",
    "arith.remui": "remainder",
    "arith.minui": "minimum",
    "arith.maxui": "maximum",
}
_BITWISE = {"arith.andi": "and", "arith.ori": "or", "arith.xori": "xor"}
_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""Of `arith.cmpi`, by number; the last four compare without sign."""


@process("arith.constant")
def constant(call: Call) -> list[int]:
    """A constant, `index` as `i64`."""
    text, type = call.signature.text("value") or "", call.result
    if text.startswith("#opaque") and call.signature.results[0].dtype == "index":
        text = f"dense<{dense_array(text).tolist()}>"
    if not text.startswith("#opaque"):
        content = text.rpartition(" : ")[0] or text
        text = f"{content if content.startswith('dense') else f'dense<{content}>'} : {type}"
    return [call.ctx.emit("constant", (), type, {"value": text})]


@process(*_SIGNED)
def signed(call: Call) -> list[int]:
    """Arithmetic in two's complement."""
    left, right = _numbers(call)
    return [call.ctx.binary(_SIGNED[call.signature.name], left, right)]


@process(*_UNSIGNED)
def unsigned(call: Call) -> list[int]:
    """Arithmetic on the same bits read without a sign."""
    left, right = _numbers(call)
    result = call.ctx.binary(_UNSIGNED[call.signature.name], _without_sign(call, left), _without_sign(call, right))
    return [_as(call, result, call.ctx.type(left).dtype)]


@process(*_BITWISE)
def bitwise(call: Call) -> list[int]:
    """Logic bit by bit."""
    return [call.ctx.binary(_BITWISE[call.signature.name], *call.operands)]


@process("arith.cmpi")
def cmpi(call: Call) -> list[int]:
    """A comparison of integers."""
    number = call.integer("predicate")
    if not 0 <= number < len(_PREDICATES):
        raise ShardingError(f"{number} is no predicate of a comparison")
    if number < 2:
        left, right = call.operands
        return [call.ctx.compare(left, right, _PREDICATES[number])]
    left, right = _numbers(call)
    if number >= 6:
        left, right = _without_sign(call, left), _without_sign(call, right)
    return [call.ctx.compare(left, right, _PREDICATES[number])]


@process("arith.select")
def select(call: Call) -> list[int]:
    """One value or the other."""
    return [call.ctx.select(*call.operands)]


@process("arith.index_cast")
def index_cast(call: Call) -> list[int]:
    """The same number in another width; what has no room is cut off, the sign is kept."""
    (value,) = _numbers(call)
    return [call.ctx.convert(value, call.result.dtype)]


@process("arith.index_castui")
def index_castui(call: Call) -> list[int]:
    """The same number in another width, read without a sign."""
    (value,) = _numbers(call)
    dtype = call.result.dtype
    return [_as(call, call.ctx.convert(_without_sign(call, value), f"u{dtype}"), dtype)]


@process("tensor.from_elements")
def from_elements(call: Call) -> list[int]:
    """A tensor of scalars, row-major."""
    rows = [call.ctx.reshape(value, (1,)) for value in call.operands]
    if not rows:
        raise ShardingError("a tensor without elements", remedy="write it as a constant")
    joined = call.result.with_shape((len(rows),))
    row = call.ctx.emit("concatenate", rows, joined, {"dimension": integer(0)})
    return [call.ctx.reshape(row, call.result.dims)]


@process("tensor.extract")
def extract(call: Call) -> list[int]:
    """One element of a tensor."""
    value, *indices = call.operands
    element = call.ctx.dynamic_slice(value, indices, (1,) * len(indices))
    return [call.ctx.reshape(element, ())]


def _numbers(call: Call) -> tuple[int, ...]:
    """The operands, which must be integers of more than one bit: `arith` and StableHLO differ on those of one."""
    for type in call.signature.operands:
        dtype = lowered_type(type).dtype
        if dtype == "i1" or not dtype.startswith("i"):
            raise ShardingError(
                f"arithmetic on {type} is not supported here", remedy="use StableHLO ops for anything but indices"
            )
    return call.operands


def _without_sign(call: Call, value: int) -> int:
    return _as(call, value, f"ui{bit_width(call.ctx.type(value).dtype)}")


def _as(call: Call, value: int, dtype: str) -> int:
    """The bits of `value` as elements of `dtype`."""
    return call.ctx.emit("bitcast_convert", (value,), TensorType(call.ctx.type(value).dims, dtype))
