"""Whether an integer tensor holds, everywhere along one of its dimensions, the index there.

That is what an iota holds, and what is left of it through broadcasts, reshapes, and the steps that make negative or
too large indices valid ones where those change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardwright.ir.attributes import decode
from shardwright.ir.context import ir
from shardwright.rules.traits import facts_of

__all__ = ["component_is_index"]

_DEEPEST = 200


def component_is_index(indices: Any, along: int, component: int) -> bool:
    """Whether a component of the vectors in dimension `along` of `indices` is everywhere the index in dimension 0."""
    element = indices.type.element_type
    if not isinstance(element, ir.IntegerType) or indices.type.shape[0] > 1 << (element.width - 1):
        return False  # an iota of a type so small counts from the start again
    op = _maker(indices)
    while op is not None and op.name == "stablehlo.concatenate" and int(op.attributes["dimension"].value) == along:
        indices, component = _part(op, along, component)
        op = _maker(indices)
    return is_index(indices, 0)


def is_index(value: Any, dim: int) -> bool:
    """Whether every element of `value` is its own index in dimension `dim`."""
    for _ in range(_DEEPEST):
        op = _maker(value)
        if op is None:
            return False
        if op.name == "stablehlo.iota":
            return int(op.attributes["iota_dimension"].value) == dim
        step = _STEPS.get(op.name)
        before = step(op, dim) if step is not None else None
        if before is None:
            return False
        value, dim = before
    return False


def _part(op: Any, along: int, component: int) -> tuple[Any, int]:
    """The operand of a concatenation that holds a component, and which of its own that is."""
    for operand in list(op.operands)[:-1]:
        size = operand.type.shape[along]
        if component < size:
            return operand, component
        component -= size
    return op.operands[len(op.operands) - 1], component


def _through_reshape(op: Any, dim: int) -> tuple[Any, int] | None:
    """The operand's dimension of the same size that as many elements lie before."""
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    before = math.prod(target[:dim])
    for index, size in enumerate(source):
        if size == target[dim] and math.prod(source[:index]) == before:
            return op.operands[0], index
    return None


def _through_broadcast(op: Any, dim: int) -> tuple[Any, int] | None:
    dims = list(op.attributes["broadcast_dimensions"])
    source, target = op.operands[0].type.shape, op.results[0].type.shape
    if dim in dims and source[dims.index(dim)] == target[dim]:
        return op.operands[0], dims.index(dim)
    return None


def _through_clamp(op: Any, dim: int) -> tuple[Any, int] | None:
    """Indices that lie within the bounds already."""
    low, value, high = op.operands
    least, most = _constant(low), _constant(high)
    if least is not None and most is not None and least <= 0 and most >= value.type.shape[dim] - 1:
        return value, dim
    return None


def _through_select(op: Any, dim: int) -> tuple[Any, int] | None:
    """`index < 0 ? … : index`, which no index is."""
    test, _, otherwise = op.operands
    compare = _maker(test)
    while compare is not None and compare.name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
        compare = _maker(compare.operands[0])
    if compare is None or compare.name != "stablehlo.compare":
        return None
    direction = decode(str(compare.attributes["comparison_direction"]))
    compared, bound = compare.operands
    if direction != "LT" or _constant(bound) != 0 or not _is_index_somewhere(compared):
        return None
    return otherwise, dim


def _is_index_somewhere(value: Any) -> bool:
    return any(is_index(value, dim) for dim in range(len(value.type.shape)))


_STEPS: dict[str, Callable[[Any, int], tuple[Any, int] | None]] = {
    "stablehlo.reshape": _through_reshape,
    "stablehlo.broadcast_in_dim": _through_broadcast,
    "stablehlo.clamp": _through_clamp,
    "stablehlo.select": _through_select,
}


def _constant(value: Any) -> int | None:
    """The number that all of a tensor's elements are, where that is known."""
    op = _maker(value)
    if op is not None and op.name == "stablehlo.broadcast_in_dim":
        op = _maker(op.operands[0])
    if op is None or not facts_of(op.name).literal:
        return None
    held = op.attributes["value"]
    if not isinstance(held, ir.DenseIntElementsAttr) or not held.is_splat:
        return None
    return int(held[0])


def _maker(value: Any) -> Any:
    return value.owner.operation if isinstance(value, ir.OpResult) else None
