"""A reduction by a computation of its own, along dimensions that are split: rounds of reducing and exchanging.

Of StableHLO such a body is associative: it combines elements in any grouping, in the lexicographic order of their
indices, with initial values in between, as many as an implementation likes. XLA uses these once for every result, and
what is split must be equal. So bodies are taken that pick one of two elements: initial values are the same to them
however often they are used. Where a body computes something of them (a sum beside a maximum), nobody can tell whether
that is no matter, and the operand is gathered.

Each device reduces its shard, all devices exchange what they have, and reduce that once more; shards stand in the order
of their index along the axes that split the dimension, which is the order of their elements.

Nothing says that a body commutes: the elements of a shard must be next to each other in that order. They are along the
minor-most dimension, all others fixed. Of several dimensions the last one that is split is therefore done first, with
those behind it, and the others stay as they are until it is:

    reduce tensor<6x4xf32> over [0, 1], split [{"x"}, {"y"}]
    round 1: reduce [1], gather along "y", reduce     one value for each of the rows of the shard
    round 2: reduce [0], gather along "x", reduce

The parts are stacked in a new dimension: in front, where those of a device stay together in memory, or behind the
dimensions that are still to be reduced, since XLA takes a reduction of a reduction for one over the dimensions of both.

Source: the semantics of `reduce` in the StableHLO specification.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.axes import axes_size
from shardwright.ir.signature import Body, Signature
from shardwright.ir.types import TensorType
from shardwright.memo import memoize
from shardwright.partition.localize.checks import is_split
from shardwright.partition.localize.exchanges import Exchange, exchanges
from shardwright.partition.localize.layout import wide
from shardwright.partition.localize.registry import Shardings
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather

__all__ = ["Round", "picks", "rounds"]


@dataclass(frozen=True, slots=True)
class Round:
    """Dimensions that are reduced, as they are numbered when it begins.

    Attributes:
        dims: What each device reduces of its shard.
        place: Where the dimension stands then in which the parts of devices are stacked.
        exchanges: How it then gets the parts of the others, one for each result, all at once; none where `dims` are
            whole.
    """

    dims: tuple[int, ...]
    place: int
    exchanges: tuple[Exchange, ...]


_EITHER = frozenset({"stablehlo.select", "stablehlo.maximum", "stablehlo.minimum", "stablehlo.and", "stablehlo.or"})
"""Ops that of two equal operands, the last two, give that one."""


def picks(signature: Signature) -> bool:
    """Whether a reduce combines by something that is no kind of reduction that collectives do, and picks elements."""
    (body,) = signature.bodies
    return body.reduction is None and _is_idempotent(body)


def _is_idempotent(body: Body) -> bool:
    """Whether a computation makes of two equal tuples that tuple, as far as its ops tell: argmax does, no sum."""
    tuples = range(len(body.arguments) // 2)
    names: list[object] = [*tuples, *tuples]
    for op in body.ops[:-1]:
        last = {names[value] for value in op.operands[-2:]}
        names += last if op.name in _EITHER and len(last) == 1 else [object() for _ in op.results]
    return [names[value] for value in body.ops[-1].operands] == [*tuples]


def _exchanged(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    return rule.reduction if picks(signature) else frozenset()


@exchanges("stablehlo.reduce", factors=_exchanged)
def _exchanges(signature: Signature, operands: Shardings) -> tuple[Exchange, ...]:
    if not picks(signature):
        return ()
    return tuple(exchange for one in rounds(signature, operands[0]) for exchange in one.exchanges)


@memoize
def rounds(signature: Signature, operand: TensorSharding) -> tuple[Round, ...]:
    """The rounds of a reduction by a computation of its own whose operands lie so, in order."""
    made: list[Round] = []
    shape, axes = signature.operands[0].dims, operand.axes
    left = sorted(signature.get("dimensions", ()))
    while left:
        first = max((dim for dim in left if is_split(axes[dim])), default=left[0])
        dims, along = tuple(dim for dim in left if dim >= first), wide(axes[first])
        left = [dim for dim in left if dim < first]
        kept = [dim for dim in range(len(shape)) if dim not in dims]
        shape, axes = tuple(shape[dim] for dim in kept), tuple(axes[dim] for dim in kept)
        place = first if left else 0
        stacked = (*shape[:place], axes_size(along), *shape[place:])
        layout = operand.with_axes((*axes[:place], along, *axes[place:])).closed()
        made.append(Round(dims, place, _gathers(signature.results, stacked, layout, place) if along else ()))
    return tuple(made)


def _gathers(
    results: tuple[TensorType, ...], shape: tuple[int, ...], layout: TensorSharding, dim: int
) -> tuple[Exchange, ...]:
    """Each result's parts, stacked along `dim`, one of every device, given to all of them."""
    step = AllGather(tuple(axes if number == dim else () for number, axes in enumerate(layout.axes)))
    return tuple(Exchange(type.with_shape(shape), layout, step, number > 0) for number, type in enumerate(results))
