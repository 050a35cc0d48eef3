"""What devices exchange inside an op that is computed in parts which depend on each other.

    @exchanges("stablehlo.reduce", factors=exchanged)
    def steps(signature, operand_shardings): ...

The function gives the steps that the op's localizer writes, each with the tensor that it is taken on: as data, so that
whoever prices a split (`partition.assign`) and whoever writes it have them from one place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from shardwright.ir.signature import Signature
from shardwright.ir.types import TensorType, bit_width
from shardwright.partition.localize.registry import Shardings
from shardwright.rules.rule import ShardingRule
from shardwright.sharding import TensorSharding
from shardwright.steps import Send, Step

__all__ = ["Exchange", "Exchanges", "exchanged_factors", "exchanges", "exchanges_of", "may_exchange"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A step that devices take inside an op.

    Attributes:
        type: Global type of what they exchange.
        before: How it lies before the step.
        step: The step.
        is_along: Whether it starts with the one before it, as one collective of both.
    """

    type: TensorType
    before: TensorSharding
    step: Step | Send
    is_along: bool = False


Exchanges: TypeAlias = Callable[[Signature, Shardings], tuple[Exchange, ...]]
"""`(global signature, operand shardings) -> the steps inside`, none where no factor that takes them is split."""

Factors: TypeAlias = Callable[[Signature, ShardingRule], frozenset[int]]
"""`(global signature, its rule) -> the factors along which it is split with an exchange inside`."""

_EXCHANGES: dict[str, Exchanges] = {}
_FACTORS: dict[str, Factors] = {}


def exchanges(*names: str, factors: Factors) -> Callable[[Exchanges], Exchanges]:
    """Register what devices exchange inside the ops called `names`, and the factors along which they do."""

    def register(function: Exchanges) -> Exchanges:
        for name in names:
            _EXCHANGES[name] = function
            _FACTORS[name] = factors
        return function

    return register


def exchanged_factors(signature: Signature, rule: ShardingRule) -> frozenset[int]:
    """The factors of an op's known rule along which it can be split with an exchange inside; of most ops none.

    Elements must be plain numbers: collectives take no others.
    """
    factors = _FACTORS.get(signature.name)
    if factors is None or not all(bit_width(type.dtype) for type in signature.results):
        return frozenset()
    return factors(signature, rule)


def may_exchange(name: str) -> bool:
    """Whether devices exchange something inside some ops of a name."""
    return name in _EXCHANGES


def exchanges_of(signature: Signature, operand_shardings: Shardings) -> tuple[Exchange, ...]:
    """What devices exchange inside an op whose operands lie so, in order; of most ops nothing.

    Nothing of uneven operands either: the one op that reads them leaves them where they are (see `uneven`).
    """
    steps = _EXCHANGES.get(signature.name)
    if steps is None or not operand_shardings[0].divides(signature.operands[0].dims):
        return ()
    return tuple(one for one in steps(signature, operand_shardings) if one.type.elements)
