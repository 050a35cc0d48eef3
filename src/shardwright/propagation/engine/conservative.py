"""Conservative propagation: only whole axes flow, and never to where data would move between neighbouring shards.

Three things differ from the usual. An axis is taken whole or not at all. Factors of slices, pads and windows that need
data of neighbours do not flow. Dimensions that concatenate joins, and those a convolution slides its window along,
have nothing in common across the op's tensors.

Source: the option `conservative-propagation` of the `sdy` propagation passes.
"""

from __future__ import annotations

from dataclasses import replace

from shardwright.axes import Axes
from shardwright.ir.signature import Signature
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.rules.registry import factors_apart
from shardwright.rules.rule import ShardingRule, TensorMapping
from shardwright.rules.traits import facts_of

__all__ = ["conservative_rule", "whole_prefix"]


def whole_prefix(axes: Axes, mesh: Mesh) -> Axes:
    """The major axes before the first one that is a part of an axis of `mesh`."""
    for index, axis in enumerate(axes):
        if not mesh.is_full(axis):
            return axes[:index]
    return axes


@memoize
def conservative_rule(signature: Signature, rule: ShardingRule) -> ShardingRule:
    """The rule of an op in conservative propagation; what a program gives itself stays as it is."""
    if rule.custom:
        return rule
    if facts_of(signature.name).windowed:
        return replace(rule, blocked=rule.blocked | rule.permutation | rule.need_replication)
    apart = factors_apart(signature, rule)
    return rule if apart is None else _without(rule, apart)


def _without(rule: ShardingRule, removed: frozenset[int]) -> ShardingRule:
    """The rule without some factors; every dimension that this leaves empty gets a factor of size 1 of its own."""
    kept = [factor for factor in range(len(rule.sizes)) if factor not in removed]
    number = {factor: index for index, factor in enumerate(kept)}
    sizes = [rule.sizes[factor] for factor in kept]

    def mapping(tensor: TensorMapping) -> TensorMapping:
        dims = []
        for dim in tensor:
            factors = tuple(number[factor] for factor in dim if factor in number)
            if not factors:
                factors = (len(sizes),)
                sizes.append(1)
            dims.append(factors)
        return tuple(dims)

    def renumbered(factors: frozenset[int]) -> frozenset[int]:
        return frozenset(number[factor] for factor in factors if factor in number)

    operands, results = tuple(map(mapping, rule.operands)), tuple(map(mapping, rule.results))
    return ShardingRule(
        tuple(sizes),
        operands,
        results,
        renumbered(rule.reduction),
        renumbered(rule.need_replication),
        renumbered(rule.permutation),
        renumbered(rule.blocked),
    )
