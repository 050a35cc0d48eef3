"""Scatter into a tensor of which each device holds some rows.

Indices are counted from the start of the shard: StableHLO drops updates that do not fit into the operand, and so each
is applied exactly once. Where devices hold different updates of the same place, the
results are contributions to a reduction, in which the operand counts once: a part of it on each of them where it is a
sum of parts itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.axes import Axes, subtract_axes
from shardwright.errors import ShardingError
from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.partition.localize.checks import is_split, require_alike
from shardwright.partition.localize.indices import index_space, require_whole_vector, shift, signed
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.local import Local, local_type
from shardwright.partition.localize.registry import Shardings, local_signature, localizer
from shardwright.partition.localize.rows import SCATTER, Numbers, scattered_rows, window_of
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding

__all__: list[str] = []


def _by_rows(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """A window of some rows, at an index, is written row by row, each where it lies."""
    numbers, count = signature.get("scatter_dimension_numbers", {}), len(signature.results)
    shape, updates = signature.operands[0].dims, signature.operands[count + 1].dims
    rows = [
        dim
        for dim, out in window_of(SCATTER, numbers, len(shape)).items()
        if updates[out] < shape[dim] and dim in numbers.get("scatter_dims_to_operand_dims", ())
    ]
    freed = frozenset(factor for dim in rows for factor in rule.operands[0][dim])
    return replace(rule, need_replication=rule.need_replication - freed) if freed else rule


# It works out itself which part of an update falls into a shard.
@localizer(
    "stablehlo.scatter",
    covered=lambda signature, rule, splittable: splittable | rule.pass_through,
    in_parts=_by_rows,
)
def _scatter(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    count = len(signature.results)
    numbers = signature.get("scatter_dimension_numbers", {})
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    require_whole_vector("a scatter", numbers.get("index_vector_dim", 0), source[count])
    require_alike("a scatter", range(source[0].rank), source[0], *source[1:count], *target)
    require_alike("a scatter", range(source[-1].rank), source[-1], *source[count + 1 :])
    places, wider = _shifted_dims(signature, numbers, source[0], count)
    if wider:
        rows = scattered_rows(ctx, signature, indices, source[count], wider[0])
        lying = (*source[:count], rows.sharding, *source[count + 1 :])
        return _scatter(ctx, rows.signature, (*inputs, rows.indices, *updates), lying, target)
    _require_fitting(numbers, source[0], source[count], source[-1], places)
    local = local_signature(signature, source, target)
    once = _once_axes(source, target, count)
    _require_reduced(numbers, source, wide(target[0].partial_axes))
    if once:
        inputs = [ctx.once(value, once, _kind(signature), target[0].mesh) for value in inputs]
    if places:
        indices = _own_indices(ctx, signature, numbers, indices, source[0], places)
        types = (*local.operands[:count], ctx.type(indices), *local.operands[count + 1 :])
        local = local.replace(operands=types, indices_are_sorted="false")
        if _is_single(numbers, ctx.type(updates[0])):
            inputs = _kept_apart(ctx, inputs)
    return ctx.append(local, (*inputs, indices, *updates))


def _own_indices(
    ctx: Local, signature: Signature, numbers: Numbers, indices: int, sharding: TensorSharding, places: list[int]
) -> int:
    """Indices into the shard; one of another shard points beside it."""
    table = local_type(signature.operands[0], sharding).dims
    vector: int = signature.get("scatter_dimension_numbers", {}).get("index_vector_dim", 0)
    shape = signature.operands[0].dims
    dims = numbers.get("scatter_dims_to_operand_dims", ())
    space = index_space(dims, vector, shape, {}, sharding, table, places)
    return shift(ctx, signed(ctx, indices, space.limits, 1), space)


def _is_single(numbers: Numbers, update: TensorType) -> bool:
    """Whether there is one index at most."""
    window = numbers.get("update_window_dims", ())
    return all(size <= 1 for dim, size in enumerate(update.dims) if dim not in window)


def _kept_apart(ctx: Local, inputs: Sequence[int]) -> tuple[int, ...]:
    """The same tensors, of which XLA does not see where they come from.

    It makes a slice and an update of a scatter of one index, which both move an index to where it fits and leave there
    what they find. Of a tensor that is a slice itself (a shard of one that was whole) it makes one slice of the two,
    which reads where the index says.
    """
    barrier = Signature("stablehlo.optimization_barrier", (), types := tuple(map(ctx.type, inputs)), types)
    return ctx.append(barrier, inputs)


def _shifted_dims(
    signature: Signature, numbers: Numbers, sharding: TensorSharding, count: int
) -> tuple[list[int], list[int]]:
    """Split dimensions of the operand in which single elements are updated, and those in which windows of several are.

    Raises:
        ShardingError: a split dimension that updates cover in part, without an index.
    """
    shape, updates = signature.operands[0].dims, signature.operands[count + 1].dims
    window = window_of(SCATTER, numbers, sharding.rank)
    places, wider = list[int](), list[int]()
    for dim, axes in enumerate(sharding.axes):
        size = updates[window[dim]] if dim in window else 1
        batching = dim in numbers.get("input_batching_dims", ())
        if not is_split(axes) or batching or (dim in window and size == shape[dim]):
            continue
        if dim not in numbers.get("scatter_dims_to_operand_dims", ()):
            raise ShardingError(
                f"a scatter of windows of {size} needs dimension {dim} whole, but it lies as {sharding!r}",
                remedy="gather the dimension before the op",
            )
        (places if size == 1 else wider).append(dim)
    return places, wider


def _require_fitting(
    numbers: Numbers, operand: TensorSharding, indices: TensorSharding, update: TensorSharding, places: list[int]
) -> None:
    """The updates are split as the indices and the windows they are made of."""
    window = {out: dim for dim, out in window_of(SCATTER, numbers, operand.rank).items()}
    vector: int = numbers.get("index_vector_dim", 0)  # type: ignore[assignment]
    positions = iter(dim for dim in range(indices.rank) if dim != vector)
    for out, axes in enumerate(update.axes):
        if out in window:
            expected = () if window[out] in places else operand.axes[window[out]]
        else:
            expected = indices.axes[next(positions)]
        if wide(axes) != wide(expected):
            raise ShardingError(f"dimension {out} of a scatter's updates lies as {update!r}, its parts do not")
    for dim, index in zip(
        numbers.get("input_batching_dims", ()), numbers.get("scatter_indices_batching_dims", ()), strict=True
    ):
        if wide(operand.axes[dim]) != wide(indices.axes[index]):
            raise ShardingError(f"a scatter needs its batch split alike, but has {operand!r} and {indices!r}")


def _once_axes(source: Shardings, target: Shardings, count: int) -> Axes:
    """Axes along which the results are contributions and the operands are not."""
    return wide(subtract_axes(target[0].partial_axes, source[0].partial_axes))


def _require_reduced(numbers: Numbers, source: Shardings, partial: Axes) -> None:
    """Updates split along axes that do not split the operand make the result partial along these."""
    batch = numbers.get("input_batching_dims", ())
    window = numbers.get("update_window_dims", ())
    matched = [axis for dim in batch for axis in source[0].axes[dim]]
    loose = [axis for dim, axes in enumerate(source[-1].axes) if dim not in window for axis in axes if axis.size > 1]
    rest = subtract_axes(loose, (*partial, *matched))
    if rest:
        raise ShardingError(
            f"updates that lie as {source[-1]!r} leave a partial result along {', '.join(a.name for a in rest)}",
            remedy="say so in the result's sharding, or gather the updates",
        )


def _kind(signature: Signature) -> str:
    kind = signature.bodies[0].reduction if signature.bodies else None
    if kind is None:
        raise ShardingError(
            "a scatter by a computation of its own cannot be split along its updates",
            remedy="gather the updates before the op",
        )
    return kind
