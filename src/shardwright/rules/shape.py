"""Ops that only rearrange: broadcast, transpose, reshape and bitcast."""

from __future__ import annotations

import math
from collections.abc import Iterator

from shardwright.ir.signature import Signature
from shardwright.rules.builder import NEED_REPLICATION, RuleBuilder
from shardwright.rules.facts import MOVES, Flow, OpFacts, declare
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule, factors_in

__all__ = ["reshape_factors"]

declare(["stablehlo.dynamic_reshape"], OpFacts(exact=True))


@sharding_rule("stablehlo.transpose", facts=MOVES | OpFacts(index_by_index=True, flow=Flow.PASS_THROUGH))
def _transpose(signature: Signature) -> ShardingRule:
    builder = RuleBuilder(signature)
    for out, dim in enumerate(signature.get("permutation", ())):
        builder.factor(signature.operands[0].dims[dim], [dim], [out])
    return builder.build()


@sharding_rule(
    "stablehlo.broadcast_in_dim",
    facts=MOVES | OpFacts(flow=Flow.BROADCAST, computed_where_read=True, preserves_constants=True, index_by_index=True),
)
def _broadcast_in_dim(signature: Signature) -> ShardingRule:
    """A dimension of size 1 that is widened keeps a factor of its own, apart from that of the wide one."""
    source, target = signature.operands[0].dims, signature.results[0].dims
    dim_of = {out: dim for dim, out in enumerate(signature.get("broadcast_dimensions", ()))}
    sizes: list[int] = []
    operand: list[tuple[int, ...]] = [()] * len(source)
    result: list[tuple[int, ...]] = []
    for out, size in enumerate(target):
        dim = dim_of.get(out)
        if dim is not None:
            operand[dim] = (len(sizes),)
            if source[dim] != size:
                sizes.append(source[dim])
        result.append((len(sizes),))
        sizes.append(size)
    return ShardingRule(tuple(sizes), (tuple(operand),), (tuple(result),))


@sharding_rule("stablehlo.broadcast", beyond_shardy=True, facts=OpFacts(exact=True))
def _broadcast(signature: Signature) -> ShardingRule:
    new = signature.results[0].rank - signature.operands[0].rank
    builder = RuleBuilder(signature)
    for out, size in enumerate(signature.results[0].dims):
        builder.factor(size, [out - new if out >= new else None], [out])
    return builder.build()


@sharding_rule("stablehlo.bitcast_convert", facts=OpFacts(exact=True, typed=True, index_by_index=True))
def _bitcast_convert(signature: Signature) -> ShardingRule:
    """Elements of another width add or take away an innermost dimension, which stays whole."""
    (source,), (target,) = signature.operands, signature.results
    common = min(source.dims, target.dims, key=len)
    builder = RuleBuilder(signature).pointwise(common)
    if source.rank > target.rank:
        builder.factor(source.dims[-1], [source.rank - 1], [None], NEED_REPLICATION)
    elif source.rank < target.rank:
        builder.factor(target.dims[-1], [None], [target.rank - 1], NEED_REPLICATION)
    return builder.build()


@sharding_rule(
    "stablehlo.reshape",
    facts=MOVES | OpFacts(flow=Flow.PASS_THROUGH, shares_buffer=True, preserves_constants=True, index_by_index=True),
    local=lambda signature, rule: factors_in(rule.operands[0]) & factors_in(rule.results[0]),
)
def _reshape(signature: Signature) -> ShardingRule | None:
    """No rule for tensors without elements: nothing is won by splitting them."""
    (source,), (target,) = signature.operands, signature.results
    if source.elements == 0:
        return None
    builder = RuleBuilder(signature)
    for size, dim, out in reshape_factors(source.dims, target.dims):
        builder.factor(size, [dim], [out])
    return builder.build()


class _Side:
    """One shape of a reshape, read major to minor: `done` elements are split off, `due` by the end of `dim`."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dim = 0
        self.done = 1
        self.due = shape[0] if shape else 1

    @property
    def open(self) -> bool:
        return self.dim < len(self.shape)

    @property
    def at_one(self) -> bool:
        return self.open and self.shape[self.dim] == 1

    @property
    def rest(self) -> int:
        """What is left of the current dimension."""
        return self.due // self.done

    def take(self, size: int) -> int:
        """Split `size` off the current dimension, whose number is the answer, and go on when it is used up."""
        dim = self.dim
        self.done *= size
        if self.done == self.due:
            self.skip()
        return dim

    def skip(self) -> int:
        """Go on to the next dimension; the answer is the number of the one left."""
        self.dim += 1
        self.due *= self.shape[self.dim] if self.open else 1
        return self.dim - 1


def reshape_factors(source: tuple[int, ...], target: tuple[int, ...]) -> Iterator[tuple[int, int | None, int | None]]:
    """`(size, source dimension, target dimension)` of each factor of a reshape; `None` where a side lacks it.

    Both shapes are read major to minor. While they stand at the same number of elements they share factors (the
    greatest common divisor of what is left of their dimensions). Where that is 1 they diverge, and get factors of
    their own until they meet again:

        >>> list(reshape_factors((8, 2), (4, 4)))
        [(4, 0, 0), (2, 0, 1), (2, 1, 1)]
    """
    left, right = _Side(source), _Side(target)
    while left.open or right.open:
        if left.at_one:
            yield 1, left.skip(), None
        elif right.at_one:
            yield 1, None, right.skip()
        elif left.done == right.done:
            yield from _together(left, right)
        elif left.done < right.done:
            size = _catch_up(left, right)
            yield size, left.take(size), None
        else:
            size = _catch_up(right, left)
            yield size, None, right.take(size)


def _together(left: _Side, right: _Side) -> Iterator[tuple[int, int | None, int | None]]:
    common = math.gcd(left.rest, right.rest)
    if common > 1:
        yield common, left.take(common), right.take(common)
        return
    size, other = left.rest, right.rest
    yield size, left.take(size), None
    yield other, None, right.take(other)


def _catch_up(behind: _Side, ahead: _Side) -> int:
    """The next factor of the side that is behind: one that makes both meet, or else leaves their common divisor."""
    missing, inexact = divmod(ahead.done, behind.done)
    if not inexact and behind.rest % missing == 0:
        return missing
    common = math.gcd(behind.rest, ahead.rest)
    return behind.rest // common if behind.rest > common else behind.rest
