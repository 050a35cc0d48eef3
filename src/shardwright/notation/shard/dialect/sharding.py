"""Shardings and what carries them: `shard.sharding`, `shard.shard`, `get_sharding`, `shard_shape`, `update_halo`.

Source: MLIR's `shard` dialect page.
"""

from __future__ import annotations

import itertools

from shardwright.notation.forms.form import Attribute, Operand, OpForm, OpText, Symbols
from shardwright.notation.forms.kinds import AXES, DYNAMIC, I64_ARRAY, SYMBOL, UNIT
from shardwright.notation.shard.dialect.checks import (
    all_of,
    axes_in_grid,
    grid_of,
    group_size,
    index_results,
    refuse,
    shape_of,
    tensor_at,
)

__all__ = ["SHARDING", "SHARDING_FORMS", "verify_sharding"]

SHARDING = "!shard.sharding"


def _verify_axes(op: OpText, symbols: Symbols) -> None:
    """Each axis of the grid is there at most once, over all dimensions and the partial axes."""
    lists = [*op.attributes["split_axes"], op.attributes.get("partial_axes", ())]
    seen: set[int] = set()
    for axis in itertools.chain.from_iterable(lists):
        if axis < 0:
            refuse(
                op,
                "grid axis is expected to be non-negative",
                cause=f"got {axis}; axes are counted from 0",
                remedy="use the position of the axis in the grid",
            )
        if axis in seen:
            refuse(
                op,
                "grid axis duplicated",
                cause=f"axis {axis} is there twice, and can split or reduce a tensor once",
                remedy="take it out of one of the lists",
            )
        seen.add(axis)
    axes_in_grid(op, grid_of(op, symbols), sorted(seen))


def _verify_halos(op: OpText, symbols: Symbols) -> None:
    del symbols
    sizes = op.attributes["static_halo_sizes"]
    split = sum(1 for axes in op.attributes["split_axes"] if axes)
    if sizes and len(sizes) != 2 * split:
        refuse(
            op,
            "halo sizes must be specified for all split axes.",
            cause=f"{len(sizes)} are given for {split} split dimensions",
            remedy="give two for each dimension with split axes: before and after",
        )
    if any(size < 0 for size in sizes if size != DYNAMIC):
        refuse(
            op,
            "halo sizes must be non-negative.",
            cause="a halo is a number of elements",
            remedy="give 0 where there is none",
        )


def _verify_offsets(op: OpText, symbols: Symbols) -> None:
    offsets = op.attributes["static_sharded_dims_offsets"]
    if not offsets:
        return
    grid = grid_of(op, symbols)
    if DYNAMIC in shape_of(grid):
        refuse(
            op,
            "sharded dims offsets are not allowed for device grids with dynamic shape.",
            cause="the number of shards is not known",
            remedy="give the grid static sizes",
        )
    counts = [group_size(grid, axes) for axes in op.attributes["split_axes"] if axes]
    if len(offsets) != sum(counts) + len(counts):
        refuse(
            op,
            "sharded dims offsets has wrong size.",
            cause=f"{len(offsets)} are given, {sum(counts) + len(counts)} are needed: one more than shards, "
            "for each dimension with split axes",
            remedy="give where every shard starts and where the last one ends",
        )
    rest = iter(offsets)
    for count in counts:
        known = [offset for offset in itertools.islice(rest, count + 1) if offset != DYNAMIC]
        if any(low > high for low, high in itertools.pairwise([0, *known])):
            refuse(
                op,
                "sharded dims offsets must be non-decreasing.",
                cause=f"got {known[:16]}",
                remedy="begin at 0 and let none be smaller than the one before",
            )


def _verify_exclusive(op: OpText, symbols: Symbols) -> None:
    del symbols
    if op.attributes["static_halo_sizes"] and op.attributes["static_sharded_dims_offsets"]:
        refuse(
            op,
            f"'{op.form.name}' op halo sizes and shard offsets are mutually exclusive",
            cause="a shard with offsets has no halo",
            remedy="give one of the two",
        )


def _verify_result(op: OpText, symbols: Symbols) -> None:
    del symbols
    for type_ in op.result_types:
        if type_ != SHARDING:
            refuse(
                op,
                f"'{op.form.name}' op result #0 must be sharding definition, but got '{type_}'",
                cause="shardings are of type !shard.sharding",
                remedy="write !shard.sharding",
            )


verify_sharding = all_of(_verify_axes, _verify_exclusive, _verify_halos, _verify_offsets, _verify_result)


def _verify_shard(op: OpText, symbols: Symbols) -> None:
    del symbols
    tensor_at(op, "operand #0", op.operand_types[0])


def _verify_update_halo(op: OpText, symbols: Symbols) -> None:
    tensor_at(op, "operand #0", op.operand_types[0], least=1)
    _verify_axes(op, symbols)
    _verify_halos(op, symbols)


def _verify_shard_shape(op: OpText, symbols: Symbols) -> None:
    del symbols
    index_results(op, len(op.attributes["dims"]))


SHARDING_FORMS = (
    OpForm(
        "shard.sharding",
        "$grid `split_axes` `=` $split_axes"
        " (`halo_sizes` `=` custom<DynamicIndexList>($dynamic_halo_sizes, $static_halo_sizes)^)?"
        " (`sharded_dims_offsets` `=`"
        " custom<DynamicIndexList>($dynamic_sharded_dims_offsets, $static_sharded_dims_offsets)^)?"
        " attr-dict `:` type($result)",
        doc="A sharding: for each dimension the axes of the grid that split it, major first; `[[]]` is replicated. "
        "Halos are two sizes for each split dimension; offsets say for each where its shards start and where the last "
        "one ends. Source: ShardingOp.",
        operands=(
            Operand("dynamic_sharded_dims_offsets", "variadic", "i64"),
            Operand("dynamic_halo_sizes", "variadic", "i64"),
        ),
        results=("result",),
        attributes=(
            Attribute("grid", SYMBOL),
            Attribute("split_axes", AXES),
            Attribute("static_sharded_dims_offsets", I64_ARRAY, default=()),
            Attribute("static_halo_sizes", I64_ARRAY, default=()),
        ),
        verify=verify_sharding,
    ),
    OpForm(
        "shard.shard",
        "$src `to` $sharding (`annotate_for_users` $annotate_for_users^)? attr-dict `:` type($result)",
        doc="Says how a tensor is sharded: where its definer computes it, or, with `annotate_for_users`, where the "
        "users of this result read it. Source: ShardOp.",
        operands=(Operand("src", type="$result"), Operand("sharding", type=SHARDING)),
        results=("result",),
        attributes=(Attribute("annotate_for_users", UNIT, default=False),),
        verify=_verify_shard,
    ),
    OpForm(
        "shard.get_sharding",
        "$source attr-dict `:` type($source) `->` type($result)",
        doc="The sharding of a tensor as a value. Source: GetShardingOp.",
        operands=(Operand("source"),),
        results=("result",),
        verify=all_of(_verify_shard, _verify_result),
    ),
    OpForm(
        "shard.shard_shape",
        "`dims` `=` custom<DynamicIndexList>($dims_dynamic, $dims) `sharding` `=` $sharding"
        " `device` `=` custom<DynamicIndexList>($device_dynamic, $device) attr-dict `:` type(results)",
        doc="Shape of the shard that a device holds of a tensor with sizes `dims`. What does not divide goes to the "
        "last shards: 15 over 4 is 3, 4, 4, 4. Source: ShardShapeOp.",
        operands=(
            Operand("dims_dynamic", "variadic", "index"),
            Operand("sharding", type=SHARDING),
            Operand("device_dynamic", "variadic", "index"),
        ),
        results=("result*",),
        attributes=(Attribute("dims", I64_ARRAY), Attribute("device", I64_ARRAY)),
        verify=_verify_shard_shape,
    ),
    OpForm(
        "shard.update_halo",
        "$destination `on` $grid `split_axes` `=` $split_axes"
        " (`halo_sizes` `=` custom<DynamicIndexList>($halo_sizes, $static_halo_sizes)^)? attr-dict `:` type($result)",
        doc="Fills the halos of a local tensor with the data of the neighbours, by dimension. Source: UpdateHaloOp.",
        operands=(Operand("destination", type="$result"), Operand("halo_sizes", "variadic", "i64")),
        results=("result",),
        attributes=(
            Attribute("grid", SYMBOL),
            Attribute("split_axes", AXES),
            Attribute("static_halo_sizes", I64_ARRAY, default=()),
        ),
        verify=_verify_update_halo,
    ),
)
