"""Random numbers: the generator's state is whole, what it draws is free."""

from __future__ import annotations

from shardwright.ir.signature import Signature
from shardwright.rules.builder import NEED_REPLICATION, RuleBuilder
from shardwright.rules.facts import OpFacts, declare
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []

declare(
    ["stablehlo.rng"],
    OpFacts(
        exact=True, typed=True, effects=True, refused="its random numbers cannot be reproduced: devices would disagree"
    ),
)


@sharding_rule(
    "stablehlo.rng_bit_generator",
    facts=OpFacts(exact=True, typed=True),
    local=lambda signature, rule: frozenset(),
)
def _rng_bit_generator(signature: Signature) -> ShardingRule:
    """State → new state, bits."""
    builder = RuleBuilder(signature)
    for dim, size in enumerate(signature.operands[0].dims):
        builder.factor(size, [dim], [dim, None], NEED_REPLICATION, blocked=True)
    for dim, size in enumerate(signature.results[1].dims):
        builder.factor(size, [None], [None, dim])
    return builder.build()
