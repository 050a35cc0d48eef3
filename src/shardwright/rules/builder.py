"""Building a sharding rule factor by factor.

    RuleBuilder(signature).factor(8, [0, None], [0]).factor(16, [1, 0], [None], REDUCTION)…build()

Factors are numbered in the order of their adding; a dimension's factors are major to minor in that order. A
dimension that no factor was mapped to gets a factor of size 1 of its own: nothing is known to correspond to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Self

from shardwright.ir.signature import Signature
from shardwright.rules.rule import ShardingRule

__all__ = ["NEED_REPLICATION", "PASS_THROUGH", "PERMUTATION", "REDUCTION", "FactorKind", "RuleBuilder"]

Dims = Sequence[int | None]
"""For each tensor, the dimension that a factor is part of, or `None`."""


class FactorKind(Enum):
    """What sharding a factor asks of the op."""

    PASS_THROUGH = "pass_through"
    REDUCTION = "reduction"
    NEED_REPLICATION = "need_replication"
    PERMUTATION = "permutation"

    __hash__ = object.__hash__  # kinds are keys; the hash that enumerations have of their own is slow


PASS_THROUGH = FactorKind.PASS_THROUGH
REDUCTION = FactorKind.REDUCTION
NEED_REPLICATION = FactorKind.NEED_REPLICATION
PERMUTATION = FactorKind.PERMUTATION


class RuleBuilder:
    """The factors of one op, as they are found."""

    def __init__(self, signature: Signature) -> None:
        """Begin with no factors, for the operands and results of `signature`."""
        self._sizes: list[int] = []
        self._operands: list[list[list[int]]] = [[[] for _ in type.dims] for type in signature.operands]
        self._results: list[list[list[int]]] = [[[] for _ in type.dims] for type in signature.results]
        self._kinds: dict[FactorKind, list[int]] = {}  # plain ones left out
        self._blocked: set[int] = set()

    def factor(
        self, size: int, operands: Dims, results: Dims, kind: FactorKind = PASS_THROUGH, *, blocked: bool = False
    ) -> Self:
        """Add a factor of `size` elements that stands in the given dimension of each operand and result."""
        self._map(self._new(size, kind, blocked), operands, results)
        return self

    def across(self, dim: int, size: int, kind: FactorKind = PASS_THROUGH, *, blocked: bool = False) -> Self:
        """Add a factor that stands in dimension `dim` of every operand and result that is not a scalar."""
        index = self._new(size, kind, blocked)
        for tensor in (*self._operands, *self._results):
            if tensor:
                tensor[dim].append(index)
        return self

    def pointwise(self, shape: Sequence[int], kind: Callable[[int], FactorKind] = lambda dim: PASS_THROUGH) -> Self:
        """Add a factor across all tensors for every dimension of `shape`; `kind(dim)` gives its kind."""
        for dim, size in enumerate(shape):
            self.across(dim, size, kind(dim))
        return self

    def build(self) -> ShardingRule:
        """The rule."""
        sizes = list(self._sizes)
        operands = tuple([_mapping(tensor, sizes) for tensor in self._operands])
        results = tuple([_mapping(tensor, sizes) for tensor in self._results])
        if not self._kinds and not self._blocked:
            return ShardingRule(tuple(sizes), operands, results)
        return ShardingRule(
            tuple(sizes),
            operands,
            results,
            frozenset(self._kinds.get(REDUCTION, ())),
            frozenset(self._kinds.get(NEED_REPLICATION, ())),
            frozenset(self._kinds.get(PERMUTATION, ())),
            frozenset(self._blocked),
        )

    def _new(self, size: int, kind: FactorKind, blocked: bool) -> int:
        index = len(self._sizes)
        self._sizes.append(size)
        if kind is not PASS_THROUGH:
            self._kinds.setdefault(kind, []).append(index)
        if blocked:
            self._blocked.add(index)
        return index

    def _map(self, index: int, operands: Dims, results: Dims) -> None:
        for tensors, dims in ((self._operands, operands), (self._results, results)):
            for tensor, dim in zip(tensors, dims, strict=True):
                if dim is not None:
                    tensor[dim].append(index)


def _mapping(tensor: list[list[int]], sizes: list[int]) -> tuple[tuple[int, ...], ...]:
    dims: list[tuple[int, ...]] = []
    for factors in tensor:
        if not factors:
            factors = [len(sizes)]
            sizes.append(1)
        dims.append(tuple(factors))
    return tuple(dims)
