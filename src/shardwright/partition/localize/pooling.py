"""Pooling: devices fetch the rows that their windows take, and reduce them as they are; its gradient stays where it is.

What is padding holds nothing that counts. Where a device's windows take some of it, what it fetched is filled with what
changes nothing in their reduction, so that initial values count as they do unsplit, once for each window. By a
computation of their own, of which no such value is known, windows are reduced in parts where all they take is there.

The gradient of a maximum puts each element of its source where the greatest of a window stands. So operand and source
are split together where windows lie beside each other; where they overlap, contributions of several devices would meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardwright.ir.attributes import i64_array, i64_tensor
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.partition.localize.checks import require_alike, require_whole
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.local import Local, has_identity, local_type
from shardwright.partition.localize.reduction import with_initial
from shardwright.partition.localize.registry import Shardings, local_signature, localizer, rebuild
from shardwright.partition.localize.sliding import Slid, fetch_all, sends_all, slides
from shardwright.rules.rule import ShardingRule, TensorMapping, factors_in
from shardwright.rules.sliding import pooling
from shardwright.sharding import TensorSharding

__all__: list[str] = []


@memoize
def _plan(signature: Signature, sharding: TensorSharding) -> tuple[Slid, ...]:
    counts = zip(signature.results[0].dims, pooling(signature), strict=True)
    dims = ((dim, count, windows) for dim, (count, windows) in enumerate(counts))
    return slides(signature.operands[0], sharding, dims)


def _movable(signature: Signature) -> tuple[int, ...]:
    """The dimensions that can be split and have windows that may take rows of several shards."""
    kind = signature.bodies[0].reduction
    inputs = signature.operands[: len(signature.results)]
    filled = kind is not None and all(has_identity(kind, type.dtype) for type in inputs)
    sizes = zip(pooling(signature), signature.operands[0].dims, signature.results[0].dims, strict=True)
    return tuple(
        dim
        for dim, (windows, rows, count) in enumerate(sizes)
        if not windows.is_plain and rows and count and (filled or windows.is_inside(rows, count))
    )


def _slid(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return factors_in(tuple(rule.operands[0][dim] for dim in _movable(signature)))


@exchanges("stablehlo.reduce_window", factors=_slid)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    slid = _plan(signature, operands[0])
    return tuple(
        exchange
        for type in signature.operands[: len(signature.results)]
        for exchange in sends_all(local_type(type, operands[0]), operands[0], slid)
    )


@localizer("stablehlo.reduce_window")
def _reduce_window(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Each device fetches what its windows take of every input."""
    count, sharding = len(signature.results), source[0]
    windows, movable = pooling(signature), _movable(signature)
    fixed = [dim for dim, one in enumerate(windows) if not one.is_plain and dim not in movable]
    require_whole("a window reduction", fixed, *source[:count], *target)
    require_alike("a window reduction", range(sharding.rank), sharding, *source[1:count], *target)
    slid = _plan(signature, sharding)
    inputs = [_fetched(ctx, signature, value, sharding, slid) for value in operands[:count]]
    values = (*inputs, *operands[count:])
    padding, bases = [(one.low, one.high) for one in windows], [one.base for one in windows]
    for one in slid:
        padding[one.dim], bases[one.dim] = (one.low, one.high), one.base
    local = local_signature(signature, source, target).replace(
        operands=tuple(map(ctx.type, values)),
        padding=i64_tensor(padding) if padding else None,
        base_dilations=i64_array(bases),
    )
    kind = signature.bodies[0].reduction
    if slid and kind is not None and not ctx.is_identity(values[1], kind):
        return (with_initial(ctx, local, values[0], values[1], kind),)
    return ctx.append(local, values)


def _fetched(ctx: Local, signature: Signature, value: int, sharding: TensorSharding, slid: tuple[Slid, ...]) -> int:
    """What this device needs of an input of which `value` is its shard."""
    kind = signature.bodies[0].reduction
    if kind is None or all(one.is_there for one in slid):
        return fetch_all(ctx, value, sharding, slid)
    return fetch_all(ctx, value, sharding, slid, ctx.identity(kind, ctx.type(value).with_shape(())))


def _beside(signature: Signature) -> tuple[int, ...]:
    """The dimensions along which windows lie one behind the other, each in as many elements of its own."""
    sizes = zip(pooling(signature), signature.operands[0].dims, signature.operands[1].dims, strict=True)
    return tuple(
        dim for dim, (windows, rows, count) in enumerate(sizes) if windows.is_beside and rows == count * windows.stride
    )


def _scattered(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """Shardings of the source do not propagate; it is split with the operand where windows lie beside each other."""
    dims = [dim for dim in _beside(signature) if not pooling(signature)[dim].is_single]
    of_source = {rule.operands[0][dim][0]: rule.operands[1][dim][0] for dim in dims}

    def joined(mapping: TensorMapping) -> TensorMapping:
        return tuple(tuple(of_source.get(factor, factor) for factor in factors) for factors in mapping)

    return replace(
        rule,
        sizes=tuple(1 if factor in of_source else size for factor, size in enumerate(rule.sizes)),
        operands=tuple(map(joined, rule.operands)),
        results=tuple(map(joined, rule.results)),
        need_replication=rule.need_replication - frozenset(of_source.values()),
        permutation=rule.permutation - frozenset(of_source),
    )


def _windowed(signature: Signature, rule: ShardingRule, splittable: frozenset[int]) -> frozenset[int]:
    return splittable | factors_in(tuple(rule.operands[1][dim] for dim in _beside(signature)))


@localizer("stablehlo.select_and_scatter", covered=_windowed, in_parts=_scattered)
def _select_and_scatter(
    ctx: Local, signature: Signature, operands: Sequence[int], source: Shardings, target: Shardings
) -> tuple[int, ...]:
    """Along split dimensions each device has its windows whole."""
    beside = _beside(signature)
    require_whole("a select-and-scatter", set(range(source[0].rank)).difference(beside), *source[:2], *target)
    require_alike("a select-and-scatter", range(source[0].rank), source[0], source[1], *target)
    return rebuild(ctx, signature, operands, source, target)
