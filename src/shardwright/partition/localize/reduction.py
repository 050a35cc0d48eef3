"""Reductions: a shard of a reduced dimension gives a contribution, and the initial value counts once.

By a computation of their own (argmax, pairs of a maximum and a sum) they are completed in the op: see `rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.axes import Axes
from shardwright.errors import ShardingError
from shardwright.ir.attributes import i64_array
from shardwright.ir.builder import reduction_body
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split, require_alike, require_axes, require_partial, require_whole
from shardwright.partition.localize.collectives import local_all_gathers
from shardwright.partition.localize.exchanges import Exchange
from shardwright.partition.localize.local import Local
from shardwright.partition.localize.registry import Shardings, local_form, local_signature, localizer, rebuild
from shardwright.partition.localize.rounds import picks, rounds

__all__ = ["with_initial"]


@local_form("stablehlo.reduce")
def _local_reduce(signature: Signature, source: Shardings, target: Shardings) -> Signature | None:
    """The reduction of one device's shards, where nothing that is reduced is split."""
    return None if is_split(_reduced_axes(signature, source, target)) else local_signature(signature, source, target)


@localizer("stablehlo.reduce")
def _reduce(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """A reduction along split dimensions."""
    count = len(signature.results)
    inputs, initials = operands[:count], operands[count:]
    kind = signature.bodies[0].reduction
    if kind is None:
        return _in_rounds(ctx, signature, inputs, initials, source)
    local = local_signature(signature, source, target)
    if ctx.is_identity(initials[0], kind):
        return ctx.append(local, (*inputs, *initials))
    first = ctx.once(initials[0], _reduced_axes(signature, source, target), kind, source[0].mesh)
    return (with_initial(ctx, local, inputs[0], first, kind),)


@memoize
def _reduced_axes(signature: Signature, source: Shardings, target: Shardings) -> Axes:
    """The axes along which devices have parts of what is reduced: those that split it, and of which it is a sum.

    Raises:
        ShardingError: the tensors do not lie as a reduction leaves them.
    """
    reduced, count = signature.get("dimensions", ()), len(signature.results)
    kept = [dim for dim in range(source[0].rank) if dim not in reduced]
    require_alike("a reduction", range(source[0].rank), source[0], *source[1:count])
    for sharding in target:
        require_axes("the result of a reduction", sharding, [source[0].axes[dim] for dim in kept])
    axes = (*[axis for dim in reduced for axis in source[0].axes[dim]], *source[0].partial_axes)
    kind = signature.bodies[0].reduction
    if is_split(axes) and kind is None:
        _require_rounds(signature, target)
    if is_split(axes) and kind is not None:
        for sharding in target:
            require_partial("a reduction", axes, kind, sharding)
    return axes


def _require_rounds(signature: Signature, target: Shardings) -> None:
    if not picks(signature):
        raise ShardingError(
            "a reduction by a computation of its own cannot be split along the dimension that it reduces",
            cause="what its body computes of an initial value would count once for every part",
            remedy="gather that dimension first",
        )
    for sharding in target:
        if sharding.partial:
            raise ShardingError(
                "a reduction by a computation of its own leaves no contributions",
                cause=f"a result is declared as {sharding!r}",
                remedy="declare the result reduced: devices combine their parts in the op",
            )


def _in_rounds(
    ctx: Local, signature: Signature, inputs: Sequence[int], initials: Sequence[int], source: Shardings
) -> tuple[int, ...]:
    """The results complete: what each device has reduced is exchanged, and reduced once more.

    Initial values are used wherever something is reduced: of bodies that pick elements they count once all the same.
    """
    values = tuple(inputs)
    for one in rounds(signature, source[0]):
        values = _reduced(ctx, signature, values, initials, one.dims)
        if one.exchanges:
            parts = _exchanged(ctx, values, one.exchanges[0], one.place)
            values = _reduced(ctx, signature, parts, initials, (one.place,))
    return values


def _reduced(
    ctx: Local, signature: Signature, values: Sequence[int], initials: Sequence[int], dims: tuple[int, ...]
) -> tuple[int, ...]:
    """The same reduction of other values, along `dims`: of what has been reduced, which may be of a wider type."""
    kept = tuple(size for dim, size in enumerate(ctx.type(values[0]).dims) if dim not in dims)
    pairs = zip(initials, values, strict=True)
    operands = (*values, *[ctx.convert(initial, ctx.type(value).dtype) for initial, value in pairs])
    results = tuple(type.with_shape(kept) for type in signature.results)
    types = tuple(map(ctx.type, operands))
    return ctx.append(signature.replace(operands=types, results=results, dimensions=i64_array(dims)), operands)


def _exchanged(ctx: Local, parts: Sequence[int], exchange: Exchange, place: int) -> list[int]:
    """For each result the parts of all devices along the axes of an exchange, stacked in dimension `place`."""
    layout, shape = exchange.before, ctx.type(parts[0]).dims
    stacked = [ctx.reshape(part, (*shape[:place], 1, *shape[place:])) for part in parts]
    return local_all_gathers(ctx, stacked, layout.axes[place], place, layout.mesh)


def with_initial(ctx: Local, signature: Signature, value: int, initial: int, kind: str) -> int:
    """Reduce from the identity and combine with the initial value after: XLA drops it where a shard is one element."""
    (reduced,) = ctx.append(signature, (value, ctx.identity(kind, ctx.type(initial))))
    type = ctx.type(reduced)
    combine = reduction_body(kind, type.dtype).ops[0].name
    return ctx.binary(combine, reduced, ctx.broadcast(ctx.convert(initial, type.dtype), type.dims))


@localizer("stablehlo.batch_norm_training", "stablehlo.batch_norm_grad")
def _batch_norm(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Only features are independent of each other."""
    feature = signature.get("feature_index")
    others = [dim for dim in range(source[0].rank) if dim != feature]
    for sharding in (*source, *target):
        if sharding.rank > 1:
            require_whole("a batch normalization", others, sharding)
    return rebuild(ctx, signature, operands, source, target)
