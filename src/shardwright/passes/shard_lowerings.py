"""Ops of the `shard` dialect by ops of `affine`, `arith` and `tensor`, one level down.

    -test-grid-process-multi-index-op-lowering    process_multi_index: process_linear_index, taken apart by grid_shape
    -test-grid-all-slice-op-lowering              all_slice: extract_slice at process_multi_index, if sizes divide

The names are those of upstream's tests: there both are functions that other passes call. An all_slice along no axes is
what it slices; upstream would cut it along the whole grid.

Source: MLIR's `shard` dialect, `Transforms/Transforms.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import add, mul
from typing import Any

from shardwright.ir.context import context, ir
from shardwright.notation.shard.read import DYNAMIC
from shardwright.passes.edits import replace_by
from shardwright.passes.registry import Options, register
from shardwright.passes.shard_dialect import (
    GRIDS,
    axes_of,
    dialect_of,
    erase_dead,
    grid_of,
    grids,
    index_constant,
    is_free,
    known,
    shard_ops,
)
from shardwright.passes.upstream import clean, run_native

__all__: list[str] = []

_UNEVEN = (
    "Slicing a tensor with axis size that is not exactly divisible by the grid process group size is not supported."
)


@register("test-grid-process-multi-index-op-lowering", "Writes process_multi_index by process_linear_index.")
def lower_process_multi_index(module: ir.Module, options: Options) -> None:
    """Take the linear index of a process apart."""
    sizes = grids(module)
    for op in list(shard_ops(module.operation)):
        if known(op) == "process_multi_index":
            rank = len(sizes[grid_of(op)])
            emit = _Emit(op)
            (linear,) = emit.of_grid("process_linear_index", 1)
            shape = emit.of_grid("grid_shape", rank)
            basis = {"static_basis": _array([DYNAMIC] * rank)}
            parts = emit("affine.delinearize_index", [linear, *shape], [emit.index] * rank, basis)
            replace_by(op, [parts[axis] for axis in axes_of(op) or range(rank)])
    clean(module)


@register("test-grid-all-slice-op-lowering", "Writes all_slice by tensor.extract_slice and the index of the process.")
def lower_all_slice(module: ir.Module, options: Options) -> None:
    """Cut what each process keeps out of a tensor."""
    for op in list(shard_ops(module.operation)):
        if known(op) == "all_slice":
            replace_by(op, [_sliced(op) if axes_of(op) else op.operands[0]])
    erase_dead(list(shard_ops(module.operation)), is_free)
    run_native(module, "builtin.module(trivial-dce)")


class _Emit:
    """Puts ops in front of one of the dialect, at its location and of its grid."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.at = ir.InsertionPoint(op)
        self.index = ir.IndexType.get(context=context())

    def __call__(
        self, name: str, operands: Sequence[Any], types: Sequence[Any], attributes: dict[str, Any] | None = None
    ) -> Any:
        """A new op, and its results."""
        return ir.Operation.create(
            name,
            results=list(types),
            operands=list(operands),
            attributes=attributes or {},
            loc=self.op.location,
            ip=self.at,
        ).results

    def of_grid(self, name: str, count: int, axes: Sequence[int] = ()) -> Any:
        """An op of the dialect that says so many numbers of the grid, along these axes if there are any."""
        dialect = dialect_of(self.op) or "shard"
        attributes = {GRIDS[dialect]: self.op.attributes[GRIDS[dialect]]}
        if axes:
            attributes["axes"] = ir.DenseI16ArrayAttr.get(list(axes), context=context())
        return self(f"{dialect}.{name}", [], [self.index] * count, attributes)

    def constant(self, number: int) -> Any:
        """A number."""
        return index_constant(number, self.at, self.op.location)

    def arith(self, name: str, left: Any, right: Any) -> Any:
        """A number made of two."""
        return self(f"arith.{name}", [left, right], [self.index])[0]


def _sliced(op: Any) -> Any:
    """The part of a process."""
    emit, axes, value = _Emit(op), axes_of(op), op.operands[0]
    type, dim = ir.RankedTensorType(value.type), int(ir.IntegerAttr(op.attributes["slice_axis"]))
    position = list(emit.of_grid("process_multi_index", len(axes), axes))
    shape = list(emit.of_grid("grid_shape", len(axes), axes))
    count = reduce(partial(emit.arith, "muli"), emit.of_grid("grid_shape", len(axes), axes))
    size = _size(emit, value, type, dim)
    rest, boolean = emit.arith("remui", size, count), ir.IntegerType.get_signless(1, context=context())
    equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context=context()), 0)}
    (divides,) = emit("arith.cmpi", [rest, emit.constant(0)], [boolean], equal)
    emit("cf.assert", [divides], [], {"msg": ir.StringAttr.get(_UNEVEN, context=context())})
    part = emit.arith("divui", size, count)
    linear = _linear(emit, position, shape)
    others = {other: _size(emit, value, type, other) for other in range(type.rank) if other != dim}
    start = emit.arith("muli", linear, part)
    sizes = [part if other == dim else others[other] for other in range(type.rank)]
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1, len(sizes), 0], context=context()),
        "static_offsets": _array([DYNAMIC if other == dim else 0 for other in range(type.rank)]),
        "static_sizes": _array([DYNAMIC] * type.rank),
        "static_strides": _array([1] * type.rank),
    }
    unknown = ir.RankedTensorType.get(
        [ir.ShapedType.get_dynamic_size()] * type.rank, type.element_type, loc=op.location
    )
    (cut,) = emit("tensor.extract_slice", [value, start, *sizes], [unknown], attributes)
    result = op.results[0].type
    return cut if result == unknown else emit("tensor.cast", [cut], [result])[0]


def _size(emit: _Emit, value: Any, type: Any, dim: int) -> Any:
    """How long a dimension is."""
    if type.is_dynamic_dim(dim):
        return emit("tensor.dim", [value, emit.constant(dim)], [emit.index])[0]
    return emit.constant(type.get_dim_size(dim))


def _linear(emit: _Emit, position: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The index of a process among those that differ along some axes: the last axis runs fastest."""
    if len(position) == 1:
        return position[0]
    *first, last = position
    operands = [*first, shape[-1], last, *shape[1:-1]]
    symbols = [ir.AffineExpr.get_symbol(number, context=context()) for number in range(len(operands))]
    count = len(first)
    places, size, index = symbols[:count], symbols[count], symbols[count + 1]
    sizes = [*symbols[count + 2 :], size]
    terms = [place * reduce(mul, reversed(sizes[number:])) for number, place in enumerate(places)]
    linear = reduce(add, [terms[-1], index, *terms[:-1]])
    map = ir.AffineMap.get(0, len(symbols), [linear], context=context())
    return emit("affine.apply", operands, [emit.index], {"map": ir.AffineMapAttr.get(map)})[0]


def _array(numbers: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get(list(numbers), context=context())
