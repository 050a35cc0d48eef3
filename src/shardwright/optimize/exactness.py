"""What may change where sums of floating-point numbers keep their order, and what may not.

Contributions that one collective combines are combined in an order that is its own: the same groups of devices in one
collective give the same. Which numbers are added before and which after it is the program's; `exact` keeps that.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType
from shardwright.rules.traits import facts_of
from shardwright.sharding import TensorSharding
from shardwright.steps import AllReduce, ReduceScatter, Step

__all__ = ["keeps_order", "reductions"]

_ROUNDED = frozenset({"sum", "product", "average", "generic"})
"""Kinds of reduction that round, on floating-point numbers, and so give another number in another order."""

_UNROUNDED = frozenset({"max", "min", "and", "or", "xor"})
"""Kinds that give the same in any order."""

_EXACTLY = frozenset({"stablehlo.negate"})
"""Ops beside those that move elements that round nothing and may come before a sum or behind it."""


def keeps_order(
    exact: bool, signature: Signature, operands: Sequence[TensorSharding], results: Sequence[TensorSharding]
) -> bool:
    """Whether an op may be computed on operands that lie so: always, unless it has to be `exact` and would not be.

    Contributions may pass through what rounds nothing, and those that an op makes may be of whole numbers, or of a kind
    that rounds nothing. An op that adds up elements stays as it is, since on shards of other sizes compilers add them
    up in another order.
    """
    if not exact:
        return True
    rounded = [type for type in signature.results if _rounds(type)]
    if rounded and _adds_up(signature):
        return False
    made = {partial for layout in results for partial in layout.partial}
    passed = {partial for layout in operands for partial in layout.partial}
    kinds = {partial.kind for partial in made}
    if not rounded or not kinds & _ROUNDED:
        return True
    facts = facts_of(signature.name)
    return made == passed and (facts.moves or facts.exact or signature.name in _EXACTLY)


def reductions(type: TensorType, steps: Sequence[Step]) -> list[tuple[str, frozenset[object]]]:
    """What steps combine that rounds, in their order: kinds, each with the axes along which it is done at once."""
    return [
        (step.kind, frozenset(step.reduced))
        for step in steps
        if isinstance(step, AllReduce | ReduceScatter) and step.kind in _ROUNDED and _rounds(type)
    ]


def _adds_up(signature: Signature) -> bool:
    """Whether an op combines elements of its operands so that it rounds."""
    kinds = {body.reduction for body in signature.bodies}
    return facts_of(signature.name).sums and not (kinds and kinds <= _UNROUNDED)


def _rounds(type: TensorType) -> bool:
    return not type.dtype.startswith(("i", "ui", "si"))
