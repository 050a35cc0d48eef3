"""Which ways to split an op are looked at, of a great many not all."""

from __future__ import annotations

import itertools
import math

from shardwright.axes import axes_size
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.factors import FactorAxes
from shardwright.partition.joined_axes import Groups
from shardwright.partition.proposals import Shardings, Source, from_mesh, mesh_of
from shardwright.partition.splits import Splits
from shardwright.partition.ways import lying_by, parts_of
from shardwright.rules.rule import ShardingRule

__all__ = ["LISTED", "Listed", "are_many", "listed_by_rule", "listed_splits"]

LISTED, _LOOKED = 1 << 9, 1 << 12
"""How many ways to split an op are looked at, and of a great many among how many first ones these are."""


def are_many(rank: int, mesh: Mesh) -> bool:
    """Whether a tensor of that rank has more layouts than are listed: each axis goes to one of its dimensions, or none.

    >>> are_many(4, Mesh(data=4, model=8)), are_many(4, Mesh(pod=2, replica=4, data=4, model=8))
    (False, True)
    """
    axes = [name for name, size in mesh.axes if size > 1]
    return math.pow(1 + rank, len(axes)) > LISTED


class Listed:
    """The ways to split that ops of one rule have in common. Compared by identity: equal ones are one object.

    Attributes:
        factors: The axes of the factors by each way.
        parts: Into how many parts each factor is split then.
        operands: How operands lie then.
        results: And results, as far as parts of sums are made.
    """

    __slots__ = ("factors", "operands", "parts", "results")

    def __init__(
        self, mesh: Mesh, rule: ShardingRule, contributing: frozenset[int], kind: str, factors: tuple[FactorAxes, ...]
    ) -> None:
        """As of `lying_by`."""
        self.factors = factors
        self.parts = parts_of(factors)
        self.operands, self.results = lying_by(mesh, rule, contributing, kind, factors)


_interned = memoize(Listed)


def listed_by_rule(splits: Splits, sources: tuple[Source, ...], targets: Shardings, groups: Groups = ()) -> Listed:
    """What `listed_splits` lists; the arguments are the same. Many ops are split by the same rule, of tensors that lie
    alike: whatever else is told of them does not matter here.
    """
    nothing = frozenset[int]()
    alike = splits._replace(linear=(), iterations=0, idle=nothing, moved=0.0, streamed=(), multiplied="", once=nothing)
    return _listed_of(alike, sources, targets, groups)


@memoize
def _listed_of(splits: Splits, sources: tuple[Source, ...], targets: Shardings, groups: Groups) -> Listed:
    factors = tuple(listed_splits(splits, sources, targets, groups))
    return _interned(mesh_of(sources, targets), splits.rule, splits.contributing, splits.kind, factors)


def listed_splits(
    splits: Splits, sources: tuple[Source, ...], targets: Shardings, groups: Groups = ()
) -> list[FactorAxes]:
    """What the tensors at hand propose, and all else that the mesh allows, those of fewest axes first.

    Of a great many half are those, and half such as split the op into most parts: most large ops use all devices, and
    small ones few axes.

    Arguments:
        splits: How the op may be split.
        sources: Its operands' shardings.
        targets: Its results' targets.
        groups: The axes by those that are not to be told apart; none where all may be.
    """
    looked = list(itertools.islice(from_mesh(splits, sources, targets, groups), _LOOKED))
    if len(looked) <= LISTED:
        return looked
    few, rest = looked[: LISTED // 2], looked[LISTED // 2 :]
    return [*few, *sorted(rest, key=_parts_of, reverse=True)[: LISTED - len(few)]]


def _parts_of(factors: FactorAxes) -> int:
    """Into how many parts axes split an op."""
    return math.prod(map(axes_size, factors))
