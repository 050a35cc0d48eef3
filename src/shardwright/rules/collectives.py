"""StableHLO collectives that the program itself contains, working on devices of its own choosing.

Dimensions that a collective communicates along are whole on both sides, with a factor each.
"""

from __future__ import annotations

from shardwright.ir.ops import DEVICE_OPS
from shardwright.ir.signature import Signature
from shardwright.rules.builder import NEED_REPLICATION, RuleBuilder
from shardwright.rules.facts import OpFacts, declare
from shardwright.rules.pointwise import pointwise_rule
from shardwright.rules.registry import sharding_rule
from shardwright.rules.rule import ShardingRule

__all__: list[str] = []

_IDENTITIES = {"stablehlo.partition_id", "stablehlo.replica_id"}

declare(DEVICE_OPS - _IDENTITIES, OpFacts(effects=True, refused="it communicates between devices of its own"))
declare(["stablehlo.all_reduce"], OpFacts(sums=True, in_place=True))
declare(["stablehlo.reduce_scatter"], OpFacts(sums=True))
declare(_IDENTITIES, OpFacts(refused="its value differs from device to device, the unsharded program has one device"))


@sharding_rule(
    "stablehlo.all_reduce",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.cross-replica-sum",
)
def _elementwise(signature: Signature) -> ShardingRule | None:
    return pointwise_rule(signature) if _alike(signature) else None


@sharding_rule("stablehlo.all_gather", "stablehlo.all_to_all", "stablehlo.reduce_scatter")
def _resizing(signature: Signature) -> ShardingRule | None:
    """Whatever the op's communicated dimensions are called, they are those given by these attributes."""
    if not _alike(signature):
        return None
    names = ("all_gather_dim", "split_dimension", "concat_dimension", "scatter_dimension")
    given = (signature.get(name) for name in names)
    communicated = [dim for dim in dict.fromkeys(given) if dim is not None]
    source, target = signature.operands[0].dims, signature.results[0].dims
    inputs, outputs = len(signature.operands), len(signature.results)
    builder = RuleBuilder(signature)
    for dim in range(len(source)):
        if dim not in communicated:
            builder.across(dim, source[dim])
    for dim in communicated:
        builder.factor(source[dim], [dim] * inputs, [None] * outputs, NEED_REPLICATION)
        builder.factor(target[dim], [None] * inputs, [dim] * outputs, NEED_REPLICATION)
    return builder.build()


def _alike(signature: Signature) -> bool:
    """Whether all operands have one shape and all results one. One rule cannot speak for tensors of several."""
    return len({type.shape for type in signature.operands}) == len({type.shape for type in signature.results}) == 1
