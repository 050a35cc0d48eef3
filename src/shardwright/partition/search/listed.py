"""Which ways to split an op are looked at, of a great many not all.

Axes that a program never tells apart are not told apart then: a batch that is split over pods and, in each, over
replicas, is split as by one axis of both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from shardwright.axes import Axes, AxisRef, axes_size
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.factors import FactorAxes
from shardwright.partition.proposals import Cuts, Shardings, Source, from_mesh, legal_splits, mesh_of, proposed_first
from shardwright.partition.splits import Splits
from shardwright.rules.rule import DimFactors, ShardingRule
from shardwright.sharding import TensorSharding

__all__ = ["Groups", "are_many", "axes_together", "listed_splits"]

LISTED, _LOOKED = 1 << 9, 1 << 12
"""How many ways to split an op are looked at, and of a great many among how many first ones these are."""

Groups = tuple[tuple[str, ...], ...]
"""The axes of a mesh by name, in its order: those together that are not told apart."""


def are_many(rank: int, mesh: Mesh) -> bool:
    """Whether a tensor of that rank has more layouts than are listed: each axis goes to one of its dimensions, or none.

    >>> are_many(4, Mesh(data=4, model=8)), are_many(4, Mesh(pod=2, replica=4, data=4, model=8))
    (False, True)
    """
    axes = [name for name, size in mesh.axes if size > 1]
    return math.pow(1 + rank, len(axes)) > LISTED


def axes_together(shardings: Iterable[TensorSharding], mesh: Mesh) -> Groups:
    """Axes of which each sharding has all, one behind the other, or none.

    >>> mesh = Mesh(pod=2, replica=4, model=8)
    >>> axes_together([TensorSharding.of(mesh, [["pod", "replica"], []]), TensorSharding.of(mesh, [["model"]])], mesh)
    (('pod', 'replica'), ('model',))
    """
    pairs = list(itertools.pairwise(mesh.sizes))
    apart = {pair for pair in pairs if not set(pair).isdisjoint(mesh.manual)}
    for sharding in {id(one): one for one in shardings}.values():
        used, summed = (*sharding.used_axes, *sharding.replicated), sharding.partial_axes
        names, cut = {axis.name for axis in used}, {a.name for a in (*used, *summed) if a != mesh.axis(a.name)}
        behind = {(a.name, b.name) for axes in sharding.axes for a, b in itertools.pairwise(axes)}
        of_sums = {axis.name for axis in summed}
        for pair in pairs:
            one, other = pair
            is_used, is_summed = not names.isdisjoint(pair), (one in of_sums) != (other in of_sums)
            if (is_used and pair not in behind) or is_summed or not cut.isdisjoint(pair):
                apart.add(pair)
    groups: list[tuple[str, ...]] = []
    for number, name in enumerate(mesh.sizes):
        is_with = number > 0 and pairs[number - 1] not in apart
        groups[-1:] = [(*groups[-1], name)] if is_with else [*groups[-1:], (name,)]
    return tuple(groups)


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
    every: Iterable[FactorAxes] = from_mesh(splits, sources, targets)
    if groups:
        mesh, rule = mesh_of(sources, targets), splits.rule
        at_hand, cuts = proposed_first(splits, sources, targets)
        together = _splits_together(rule.sizes, splits.allowed, splits.bounds, rule.joined, mesh, cuts, groups)
        every = dict.fromkeys([*at_hand, *together])
    looked = list(itertools.islice(every, _LOOKED))
    if len(looked) <= LISTED:
        return looked
    few, rest = looked[: LISTED // 2], looked[LISTED // 2 :]
    return [*few, *sorted(rest, key=_parts_of, reverse=True)[: LISTED - len(few)]]


def _parts_of(factors: FactorAxes) -> int:
    """Into how many parts axes split an op."""
    return math.prod(map(axes_size, factors))


@memoize
def _splits_together(
    sizes: tuple[int, ...],
    allowed: frozenset[int],
    bounds: tuple[int, ...],
    joined: tuple[DimFactors, ...],
    mesh: Mesh,
    cuts: Cuts,
    groups: Groups,
) -> tuple[FactorAxes, ...]:
    """`legal_splits` by one axis for each group, of which there may be a great many."""
    splits = Splits(ShardingRule(sizes, (joined,), ()), allowed, "sum", (), 0, bounds=bounds)
    of_name = {"+".join(group): group for group in groups}
    of_groups = Mesh({name: math.prod(map(mesh.sizes.__getitem__, group)) for name, group in of_name.items()})
    of_axis = dict(cuts)
    places = {name: set(_places(group, of_axis, mesh)) for name, group in of_name.items()}
    found = itertools.islice(legal_splits(splits, of_groups.inside(mesh.manual), places), _LOOKED)
    return tuple(itertools.chain.from_iterable([_of_mesh(factors, of_name, mesh) for factors in found]))


def _places(group: tuple[str, ...], cuts: Mapping[str, tuple[int, ...]], mesh: Mesh) -> Iterator[int]:
    """Where an axis for a group may be cut: within one of the axes."""
    before = 1
    for name in group:
        yield from [before * cut for cut in cuts.get(name, ()) if 1 < cut < mesh.sizes[name]]
        before *= mesh.sizes[name]
    yield from (1, before)


def _of_mesh(factors: FactorAxes, of_name: Mapping[str, tuple[str, ...]], mesh: Mesh) -> list[FactorAxes]:
    """A split by axes of groups as one by those of the mesh, if it is one."""
    found: list[Axes] = []
    for axes in factors:
        parts = _parts(axes, of_name, mesh)
        if parts is None:
            return []
        found.append(parts)
    return [tuple(found)]


def _parts(axes: Axes, of_name: Mapping[str, tuple[str, ...]], mesh: Mesh) -> Axes | None:
    """Axes of groups as those of the mesh; `None` where they are cut otherwise than these can be."""
    found: list[AxisRef] = []
    for axis in axes:
        before = 1
        for name in of_name[axis.name]:
            size = mesh.sizes[name]
            begin, end = max(axis.pre, before), min(axis.end, before * size)
            if begin < end:
                if begin % before or end % begin or before * size % end:
                    return None
                found.append(AxisRef(name, begin // before, end // begin))
            before *= size
    return tuple(found)
