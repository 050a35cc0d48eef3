"""Gather from a table of which each device holds some rows.

Every device looks up what it holds and puts zeros elsewhere: contributions to a sum.

    table rows 0–3 here, 4–7 there; indices [1, 6]  →  here [row 1, 0], there [0, row 6]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.checks import is_split, require_partial
from shardwright.partition.localize.indices import index_space, inside, require_whole_vector, shift, signed
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.partition.localize.rows import GATHER, gathered_rows, window_of
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


def _by_rows(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """A window of some rows, at an index, is looked up row by row: a sum of what devices have of it."""
    numbers = signature.get("dimension_numbers", {})
    shape, result = signature.operands[0].dims, signature.results[0]
    window = window_of(GATHER, numbers, len(shape))
    rows = [
        dim
        for dim, out in window.items()
        if 1 < result.dims[out] < shape[dim] and dim in numbers.get("start_index_map", ())
    ]
    if not rows or not bit_width(result.dtype):
        return rule
    summed = frozenset(factor for dim in rows for factor in rule.operands[0][dim])
    taken = {window[dim]: len(rule.sizes) + number for number, dim in enumerate(rows)}
    (mapping,) = rule.results
    return replace(
        rule,
        sizes=(*rule.sizes, *[result.dims[out] for out in taken]),
        results=(tuple([(taken[out],) if out in taken else factors for out, factors in enumerate(mapping)]),),
        reduction=rule.reduction | summed,
        need_replication=rule.need_replication - summed | frozenset(taken.values()),
    )


@localizer("stablehlo.gather", in_parts=_by_rows)
def _gather(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    numbers = signature.get("dimension_numbers", {})
    vector: int = numbers.get("index_vector_dim", 0)
    require_whole_vector("a gather", vector, source[1])
    wider = [dim for dim in _masked_dims(signature, numbers, source[0]) if signature.get("slice_sizes", ())[dim] > 1]
    if wider:
        made = gathered_rows(ctx, signature, operands[1], source[1], wider[0])
        return _gather(ctx, made.signature, (operands[0], made.indices), (source[0], made.sharding), target)
    _require_fitting(signature, numbers, source, target[0])
    table = local_type(signature.operands[0], source[0]).dims
    masked = _masked_dims(signature, numbers, source[0])
    sizes = list(signature.get("slice_sizes", ()))
    for dim, size in enumerate(signature.operands[0].dims):
        if sizes[dim] == size:
            sizes[dim] = table[dim]
    local = local_signature(signature, source, target).replace(slice_sizes=i64_array(sizes))
    if not masked:
        return ctx.append(local, operands)
    split = tuple(axis for dim in masked for axis in source[0].axes[dim])
    require_partial("a gather", split, "sum", target[0])
    places = [dim for dim in masked if dim in numbers.get("start_index_map", ())]
    indices, own = operands[1], None
    if places:
        indices, own = _own_indices(ctx, signature, indices, source[0], table, places)
    unplaced = tuple(axis for dim in masked if dim not in places for axis in source[0].axes[dim])
    local = local.replace(operands=(local.operands[0], ctx.type(indices)), indices_are_sorted="false")
    (rows,) = ctx.append(local, (operands[0], indices))
    mask = _mask(ctx, own, unplaced, numbers, source[0], ctx.type(rows))
    return (ctx.select(mask, rows, ctx.constant(0, ctx.type(rows))),)


def _own_indices(
    ctx: Local,
    signature: Signature,
    indices: int,
    sharding: TensorSharding,
    table: tuple[int, ...],
    masked: list[int],
) -> tuple[int, int]:
    """Indices into the shard, and for every index vector whether it points there."""
    numbers = signature.get("dimension_numbers", {})
    sizes = dict(enumerate(signature.get("slice_sizes", ())))
    space = index_space(
        numbers["start_index_map"],
        numbers.get("index_vector_dim", 0),
        signature.operands[0].dims,
        sizes,
        sharding,
        table,
        masked,
    )
    counted = signed(ctx, indices, space.limits, 1)
    return shift(ctx, counted, space), inside(ctx, counted, space)


def _mask(
    ctx: Local,
    own: int | None,
    unplaced: Axes,
    numbers: dict[str, tuple[int, ...]],
    sharding: TensorSharding,
    result: TensorType,
) -> int:
    """Which elements of the result are looked up here; a dimension without an index is taken at 0, on the first."""
    mask: int | None = None
    if own is not None:
        offset = numbers.get("offset_dims", ())
        batch = [dim for dim in range(result.rank) if dim not in offset]
        mask = ctx.broadcast(own, result.dims, batch)
    if unplaced:
        first = ctx.broadcast(ctx.is_first(unplaced, sharding.mesh), result.dims)
        mask = first if mask is None else ctx.binary("and", mask, first)
    assert mask is not None
    return mask


def _masked_dims(signature: Signature, numbers: dict[str, tuple[int, ...]], sharding: TensorSharding) -> list[int]:
    """Split dimensions of which some elements are taken.

    Raises:
        ShardingError: a split dimension of which several, but not all, elements are taken, without an index.
    """
    sizes = signature.get("slice_sizes", ())
    masked = []
    for dim, axes in enumerate(sharding.axes):
        whole = sizes[dim] == signature.operands[0].dims[dim]
        if not is_split(axes) or whole or dim in numbers.get("operand_batching_dims", ()):
            continue
        if sizes[dim] != 1 and dim not in numbers.get("start_index_map", ()):
            raise ShardingError(
                f"a gather of slices of {sizes[dim]} needs dimension {dim} whole, but it lies as {sharding!r}",
                remedy="gather the dimension before the op",
            )
        masked.append(dim)
    return masked


def _require_fitting(
    signature: Signature, numbers: dict[str, tuple[int, ...]], source: Shardings, target: TensorSharding
) -> None:
    """The result is split as the indices and the slices it is made of."""
    vector = signature.get("dimension_numbers", {}).get("index_vector_dim", 0)
    offset = numbers.get("offset_dims", ())
    skipped = (*numbers.get("collapsed_slice_dims", ()), *numbers.get("operand_batching_dims", ()))
    windows = iter(dim for dim in range(source[0].rank) if dim not in skipped)
    positions = iter(dim for dim in range(source[1].rank) if dim != vector)
    sizes = signature.get("slice_sizes", ())
    for out, axes in enumerate(target.axes):
        if out in offset:
            dim = next(windows)
            expected = source[0].axes[dim] if sizes[dim] == signature.operands[0].dims[dim] else ()
        else:
            expected = source[1].axes[next(positions)]
        if wide(axes) != wide(expected):
            raise ShardingError(f"dimension {out} of a gather's result lies as {target!r}, its parts do not")
    for dim, index in zip(
        numbers.get("operand_batching_dims", ()), numbers.get("start_indices_batching_dims", ()), strict=True
    ):
        if wide(source[0].axes[dim]) != wide(source[1].axes[index]):
            raise ShardingError(f"a gather needs its batch split alike, but has {source[0]!r} and {source[1]!r}")
