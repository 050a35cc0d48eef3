"""The form of a sharding rule.

A rule names *factors*, the independent loops of an op, and maps every dimension of every operand and result to the
factors it is made of, major to minor. A matrix product has the factors `i, j, k`: `([i, k], [k, j]) -> ([i, j])`.

Source: the `sdy` dialect's OpShardingRuleAttr.
"""

from __future__ import annotations

from dataclasses import dataclass

from shardwright.memo import Hashed, once

__all__ = ["DimFactors", "ShardingRule", "TensorMapping", "factors_in", "identity_rule"]

DimFactors = tuple[int, ...]
"""The factors of one dimension, major to minor."""

TensorMapping = tuple[DimFactors, ...]
"""The factors of every dimension of one tensor."""


@dataclass(frozen=True, eq=False)
class ShardingRule(Hashed):
    """The factors of an op and where they stand. Compared by value.

    Attributes:
        sizes: Size of each factor, in elements.
        operands: A mapping per operand.
        results: A mapping per result.
        reduction: Factors whose shards hold contributions to be combined (contracting dimensions).
        need_replication: Factors that an op cannot be computed in parts of.
        permutation: Factors that need data of neighbouring shards (a slice along a sharded dimension).
        blocked: Factors along which propagation must not flow.
        custom: Whether a user gave the rule.
        local: Factors along which its author says that parts can be computed, where nothing else shows it: see
            `rules/given.py`.
    """

    sizes: tuple[int, ...]
    operands: tuple[TensorMapping, ...]
    results: tuple[TensorMapping, ...]
    reduction: frozenset[int] = frozenset()
    need_replication: frozenset[int] = frozenset()
    permutation: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    custom: bool = False
    local: frozenset[int] = frozenset()

    @once
    def joined(self) -> tuple[DimFactors, ...]:
        """The dimensions that are made of several factors."""
        return tuple([dim for mapping in (*self.operands, *self.results) for dim in mapping if len(dim) > 1])

    @once
    def special(self) -> frozenset[int]:
        """Factors that are not plain pass-through."""
        return self.reduction | self.need_replication | self.permutation

    @once
    def pass_through(self) -> frozenset[int]:
        """Factors that split all tensors alike, with no communication."""
        return frozenset(range(len(self.sizes))) - self.special


def factors_in(mapping: TensorMapping) -> frozenset[int]:
    """The factors of one tensor."""
    return frozenset(factor for dim in mapping for factor in dim)


def identity_rule(shape: tuple[int, ...], operands: int = 1) -> ShardingRule:
    """One factor per dimension, shared by `operands` operands and one result."""
    mapping = tuple((index,) for index in range(len(shape)))
    return ShardingRule(shape, (mapping,) * operands, (mapping,))
