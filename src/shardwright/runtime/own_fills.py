"""What several loops begin with, filled with one number: each has its own.

    %0 = broadcast_in_dim 0.0 : tensor<2048x64xf32>      …  %1 = optimization_barrier %0
    %2 = while(%a = %0, …)                           →   %2 = while(%a = %1, …)
    %3 = while(%a = %0, …)                               %3 = optimization_barrier %0
                                                         %4 = while(%a = %3, …)

XLA for GPUs copies what several loops are to write into, and then makes all copies in the kernel that fills the first:
what loops at the end write into is there from the beginning. A step of four layers whose loops stack what the way back
needs of 2,048 turns sets 18.6 GB aside so, and 7.3 GB with barriers, by which each loop's are made in front of it. They
are copies of one then, which takes 1.2 % longer there: it is done where there is much to gain only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardwright.ir.context import ir
from shardwright.ir.types import static_type
from shardwright.ir.walk import every_op

__all__ = ["fill_for_each_loop"]

_MUCH = 1 << 30
"""Bytes of what all loops begin with that it is worth while for."""


def fill_for_each_loop(module: ir.Module) -> None:
    """Have the loops of a module begin with tensors of their own where several begin with the same number, in place."""
    begun = {op: dict(_filled(op)) for op in every_op(module.operation) if op.name == "stablehlo.while"}
    loops = Counter([fill for fills in begun.values() for fill in set(fills.values())])
    shared = {op: [place for place, fill in fills.items() if loops[fill] > 1] for op, fills in begun.items()}
    if sum([static_type(op.operands[place].type).bytes for op, places in shared.items() for place in places]) < _MUCH:
        return
    for op, places in shared.items():
        if places:
            _fill_apart(op, places)


def _filled(loop: ir.Operation) -> Iterator[tuple[int, tuple[str, str]]]:
    """Which operands of a loop that it changes are filled with one number: of which type, and with which."""
    body = loop.regions[1].blocks[0]
    returned = body.operations[len(body.operations) - 1].operands
    for place, (operand, argument) in enumerate(zip(loop.operands, body.arguments, strict=True)):
        number = _number(operand)
        if number is not None and returned[place] != argument and static_type(operand.type).rank:
            yield place, (str(operand.type), number)


def _number(value: Any) -> str | None:
    """With which number a tensor is filled, if it is."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name == "stablehlo.broadcast_in_dim":
        return _number(op.operands[0])
    if op.name != "stablehlo.constant" or not isinstance(elements := op.attributes["value"], ir.DenseElementsAttr):
        return None
    return str(elements.get_splat_value()) if elements.is_splat else None


def _fill_apart(loop: ir.Operation, places: list[int]) -> None:
    """Put a barrier between a loop and what it begins with at some places."""
    values = list(dict.fromkeys([loop.operands[place] for place in places]))
    with ir.InsertionPoint(loop), loop.location:
        barrier = ir.Operation.create("stablehlo.optimization_barrier", [value.type for value in values], values)
    for place in places:
        loop.operands[place] = barrier.results[values.index(loop.operands[place])]
