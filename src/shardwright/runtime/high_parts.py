"""The high half of a product of integers, by ops of StableHLO.

`chlo.mulhi` has none of its own there. XLA takes it by way of MHLO, from where no way leads back. Modules of several
devices would have to go it, so XLA refuses them.

Source: of 64 bits, Warren, "Hacker's Delight", chapter 8: products of halves, signed where the factors are.
"""

from __future__ import annotations

from typing import Any

from shardwright.ir.context import ir, stablehlo
from shardwright.ir.walk import every_op

__all__ = ["take_high_parts"]

_WIDEST = 64
_HALF = _WIDEST // 2


def take_high_parts(module: ir.Module) -> None:
    """Replace each `chlo.mulhi` of a module by what it stands for, in place."""
    for op in every_op(module.operation):
        if op.name == "chlo.mulhi":
            with ir.InsertionPoint(op), op.location:
                made = _of_wide(op) if _element(op.results[0]).width == _WIDEST else _of_narrow(op)
            op.results[0].replace_all_uses_with(made)
            op.erase()


def _of_narrow(op: ir.Operation) -> Any:
    """Of a product of twice as many bits those above."""
    element = _element(op.results[0])
    wide = ir.IntegerType.get_unsigned if element.is_unsigned else ir.IntegerType.get_signless
    left, right = (stablehlo.convert(_like(value, wide(2 * element.width)), value) for value in op.operands)
    high = _shifted(stablehlo.multiply(left, right), element.width)
    return stablehlo.convert(op.results[0].type, high)


def _of_wide(op: ir.Operation) -> Any:
    """Of the products of halves what is carried to the upper 64 bits; lower halves have no sign."""
    (high, low), (other_high, other_low) = ((_shifted(value, _HALF), _low(value)) for value in op.operands)
    lowest = stablehlo.multiply(low, other_low)
    carried = stablehlo.shift_right_logical(lowest, _full(lowest, _HALF))
    middle = stablehlo.add(stablehlo.multiply(high, other_low), carried)
    other = stablehlo.add(stablehlo.multiply(low, other_high), _low(middle))
    highest = stablehlo.multiply(high, other_high)
    return stablehlo.add(stablehlo.add(highest, _shifted(middle, _HALF)), _shifted(other, _HALF))


def _low(value: Any) -> Any:
    return stablehlo.and_(value, _full(value, (1 << _HALF) - 1))


def _shifted(value: Any, bits: int) -> Any:
    """Its bits moved down, copies of its sign behind them where it has one."""
    shift = stablehlo.shift_right_logical if _element(value).is_unsigned else stablehlo.shift_right_arithmetic
    return shift(value, _full(value, bits))


def _full(value: Any, number: int) -> Any:
    """A constant of the type of a value, all of whose elements are a number."""
    return stablehlo.constant(ir.DenseElementsAttr.get_splat(value.type, ir.IntegerAttr.get(_element(value), number)))


def _element(value: Any) -> ir.IntegerType:
    return ir.IntegerType(ir.RankedTensorType(value.type).element_type)


def _like(value: Any, element: ir.Type) -> ir.Type:
    """The type of a value, of other elements."""
    return ir.RankedTensorType.get(ir.RankedTensorType(value.type).shape, element)
