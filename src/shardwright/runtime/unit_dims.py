"""Collectives of tensors without their dimensions of size 1, as XLA has them of programs that it partitions itself.

    %1 = all_reduce %0 : tensor<32x1x4096xbf16>   →   %1 = reshape %0 : tensor<32x4096xbf16>
                                                      %2 = all_reduce %1
                                                      %3 = reshape %2 : tensor<32x1x4096xbf16>

XLA leaves such dimensions out of products, and not of collectives. What is between both then keeps its schedulers from
computing beside the collectives what they could: of a step of decoding on eight H100s ten of 26 go on beside kernels in
place of eighteen, and waiting takes twice as long.
"""

from __future__ import annotations

from shardwright.ir.context import ir, stablehlo
from shardwright.ir.walk import every_op
from shardwright.runtime.remade import remade

__all__ = ["drop_unit_dims"]

_NAMED = {
    "stablehlo.all_gather": ("all_gather_dim",),
    "stablehlo.all_reduce": (),
    "stablehlo.all_to_all": ("split_dimension", "concat_dimension"),
    "stablehlo.collective_permute": (),
    "stablehlo.reduce_scatter": ("scatter_dimension",),
}
"""The dimensions that a collective names: these are kept, whatever their size."""


def drop_unit_dims(module: ir.Module) -> None:
    """Leave dimensions of size 1 out of all collectives of one tensor of a per-device module, in place."""
    for op in every_op(module.operation):
        if op.name in _NAMED and len(op.results) == 1:
            _drop(op, _NAMED[op.name])


def _drop(op: ir.Operation, named: tuple[str, ...]) -> None:
    (operand,), (result,) = op.operands, op.results
    taken, given = ir.RankedTensorType(operand.type), ir.RankedTensorType(result.type)
    dims = {name: ir.IntegerAttr(op.attributes[name]).value for name in named}
    kept = [
        dim
        for dim, sizes in enumerate(zip(taken.shape, given.shape, strict=True))
        if sizes != (1, 1) or dim in dims.values()
    ]
    if len(kept) == taken.rank:
        return
    with ir.InsertionPoint(op), op.location:
        number = ir.IntegerType.get_signless(64)
        moved = {name: ir.IntegerAttr.get(number, kept.index(dim)) for name, dim in dims.items()}
        small = stablehlo.reshape(_of(taken, kept), operand)
        made = remade(op, small, _of(given, kept), {**dict(op.attributes.items()), **moved})
        whole = stablehlo.reshape(given, made)
    result.replace_all_uses_with(whole)
    op.erase()


def _of(type: ir.RankedTensorType, kept: list[int]) -> ir.Type:
    """A tensor of some of the dimensions of another."""
    return ir.RankedTensorType.get([type.shape[dim] for dim in kept], type.element_type)
