"""A per-device program as a program of one device: collectives give way to what moves as much on the device itself.

Shapes stay, numbers do not: it is for measuring what is computed and held beside communication.

    all_reduce, collective_broadcast    their operands; copies, which XLA's partitioner leaves, too
    collective_permute                  its operand, turned along a dimension, further in each permute than in the one
                                        before: parts that go round a ring shall not be the same to XLA
    all_gather                          its operand, as often as there are pieces
    reduce_scatter                      the first piece of its operand
    all_to_all                          the pieces of its operand, joined along the other dimension
    partition_id, replica_id            zero
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

__all__ = ["alone"]

_Standin = Callable[[Any], Sequence[Any]]
"""What an op gives way to, by the values that stand for its results."""


def alone(module: Any) -> str:
    """The text of a module, changed in place, without collectives.

    Raises:
        ValueError: it holds a collective that nothing stands in for.
    """
    from jaxlib.mlir import ir

    standins: dict[str, _Standin] = {**_STANDINS, "stablehlo.collective_permute": partial(_turned, count(1))}
    found: list[Any] = []
    unknown: list[str] = []

    def look(op: Any) -> Any:
        for attribute in _OF_MANY:
            if attribute in op.attributes:
                del op.attributes[attribute]
        if op.name in standins:
            found.append(op)
        elif any(word in op.name for word in ("collective", "all_", "stablehlo.send", "stablehlo.recv")):
            unknown.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if unknown:
        raise ValueError(f"nothing stands in for {unknown[0]}")
    for op in found:
        with ir.InsertionPoint(op), op.location:
            results = standins[op.name](op)
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    return str(module)


_OF_MANY = (
    *("arg_attrs", "res_attrs", "mhlo.sharding", "mhlo.num_partitions", "mhlo.num_replicas"),
    *("mhlo.spmd_parameters_shardings", "mhlo.spmd_output_sharding"),
)
"""What says how many devices there are, and how values lie on them."""


def _themselves(op: Any) -> Sequence[Any]:
    return list(op.operands)


def _zero(op: Any) -> Sequence[Any]:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    type = op.results[0].type
    element = ir.IntegerAttr.get(type.element_type, 0)
    return [stablehlo.constant(ir.DenseElementsAttr.get_splat(type, element))]


def _gathered(op: Any) -> Sequence[Any]:
    from jaxlib.mlir.dialects import stablehlo

    dim = _integer(op, "all_gather_dim")
    every = []
    for operand, result in zip(op.operands, op.results, strict=True):
        pieces = result.type.shape[dim] // operand.type.shape[dim]
        every.append(stablehlo.concatenate([operand] * pieces, dim))
    return every


def _scattered(op: Any) -> Sequence[Any]:
    operand, result = op.operands[0], op.results[0]
    return [_slice(operand, [0] * len(result.type.shape), result.type.shape)]


def _exchanged(op: Any) -> Sequence[Any]:
    from jaxlib.mlir.dialects import stablehlo

    split, join, count = (_integer(op, name) for name in ("split_dimension", "concat_dimension", "split_count"))
    every = []
    for operand in op.operands:
        shape, size = list(operand.type.shape), operand.type.shape[split] // count
        pieces = []
        for piece in range(count):
            starts, limits = [0] * len(shape), list(shape)
            starts[split], limits[split] = piece * size, (piece + 1) * size
            pieces.append(_slice(operand, starts, limits))
        every.append(stablehlo.concatenate(pieces, join))
    return every


def _turned(permutes: Iterator[int], op: Any) -> Sequence[Any]:
    """The operand with its end in front, further in each of `permutes` than in the one before."""
    from jaxlib.mlir.dialects import stablehlo

    (operand,) = op.operands
    shape = list(operand.type.shape)
    dim = max(range(len(shape)), key=shape.__getitem__, default=None)
    if dim is None or shape[dim] == 1:
        return [operand]
    at = shape[dim] - 1 - next(permutes) % (shape[dim] - 1)
    starts, limits = [0] * len(shape), list(shape)
    starts[dim], limits[dim] = at, at
    parts = [_slice(operand, starts, shape), _slice(operand, [0] * len(shape), limits)]
    return [stablehlo.concatenate(parts, dim)]


def _slice(operand: Any, starts: Sequence[int], limits: Sequence[int]) -> Any:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.slice(operand, *map(ir.DenseI64ArrayAttr.get, (starts, limits, [1] * len(starts))))


def _integer(op: Any, name: str) -> int:
    from jaxlib.mlir import ir

    return int(ir.IntegerAttr(op.attributes[name]).value)


_STANDINS: dict[str, _Standin] = {
    "mhlo.copy": _themselves,
    "stablehlo.all_reduce": _themselves,
    "stablehlo.collective_broadcast": _themselves,
    "stablehlo.all_gather": _gathered,
    "stablehlo.reduce_scatter": _scattered,
    "stablehlo.all_to_all": _exchanged,
    "stablehlo.partition_id": _zero,
    "stablehlo.replica_id": _zero,
}
