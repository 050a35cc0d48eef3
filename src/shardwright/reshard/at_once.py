"""Redistributions that need no search: what to do is told by where a tensor lies and shall lie."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from shardwright.axes import Axes, axes_size, common_prefix, merge_axes, overlaps_any, subtract_axes
from shardwright.cost.price import Kinds
from shardwright.cost.rates import bits_of
from shardwright.cost.torus import Torus
from shardwright.reshard.problem import idle_axes
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllSlice, Step

__all__ = ["cut_or_gathered", "gathered_by_all", "is_gathered", "reduction_in_place"]

_FEW = 4
"""Of up to so many parts of idle axes any may take part; of more, whole axes."""


def reduction_in_place(source: TensorSharding, target: TensorSharding, by_hand: Kinds) -> Step | None:
    """The step for a tensor of which all contributions are combined and nothing else becomes otherwise.

    That is what the search finds: reduce_scatters and all_gathers would send as much and be more collectives.
    """
    kinds = {p.kind for p in source.partial}
    if source.axes != target.axes or target.partial or source.mesh != target.mesh:
        return None
    if len(kinds) != 1 or kinds & by_hand:
        return None
    return AllReduce(source.mesh.in_order(source.partial_axes), *kinds)


def cut_or_gathered(source: TensorSharding, target: TensorSharding) -> Step | None:
    """The step for a tensor that is split further, or less far, in each dimension as far as it was or is to be alike.

    That is what the search finds: nothing is sent for the one; for the other what each device lacks, and each dimension
    is gathered by itself. Three of them may be gathered by fewer collectives that send more.
    """
    if source.partial or target.partial or source.mesh != target.mesh or source == target:
        return None
    pairs = list(zip(source.axes, target.axes, strict=True))
    if all(new[: len(old)] == old for old, new in pairs):
        return AllSlice(tuple([new[len(old) :] for old, new in pairs]))
    if sum([old != new for old, new in pairs]) <= 2 and all(old[: len(new)] == new for old, new in pairs):
        return AllGather(tuple([old[len(new) :] for old, new in pairs]))
    return None


def is_gathered(source: TensorSharding, target: TensorSharding) -> bool:
    """Whether nothing is to be done but to cut some dimensions and gather others, so that one collective may be enough
    whoever takes part.
    """
    pairs = list(zip(source.axes, target.axes, strict=True))
    is_plain = all(old[: len(new)] == new or new[: len(old)] == old for old, new in pairs)
    used, gained = source.used_axes, [axis for old, new in pairs for axis in new[len(old) :]]
    return not source.partial and is_plain and not any(overlaps_any(axis, used) for axis in gained)


def gathered_by_all(
    shape: tuple[int, ...], source: TensorSharding, target: TensorSharding, torus: Torus
) -> tuple[Step, ...] | None:
    """The steps for a tensor of which one dimension is gathered, over the links of devices that all hold the same too:
    each of them takes a part first. `None` where that is not all, or not all of them can.

    Of all chains that takes the least time: no other device has what is gathered any nearer.
    """
    changed = [dim for dim, (old, new) in enumerate(zip(source.axes, target.axes, strict=True)) if old != new]
    if source.partial or source.mesh != target.mesh or len(changed) != 1:
        return None
    (dim,) = changed
    old, new = source.axes[dim], target.axes[dim]
    if common_prefix(old, new) != new:
        return None
    gone, bits, idle = subtract_axes(old, new), bits_of(source.mesh, torus), idle_axes(source, target)
    if bits is None or not bits.tells((*gone, *idle)):
        return None
    if source.local_shape(shape)[dim] % axes_size(idle):
        return None
    gathered, rates = bits.of(gone), bits.rates
    groups = [bits.of([axis]) for axis in idle]
    if sum([group.bit_count() for group in groups]) <= _FEW:
        groups = [1 << number for number in range(len(bits.atoms)) if bits.of(idle) >> number & 1]

    def over(some: int) -> float:
        """What goes over the busiest link, in parts of what each has at first."""
        return (rates.count(gathered) - 1 / rates.count(some)) * rates.paths(gathered | some).of_gather

    best = min(map(sum, _some_of(groups)), key=lambda some: (round(over(some), 9), some.bit_count()))
    shared = merge_axes(tuple([atom for number, atom in enumerate(bits.atoms) if best >> number & 1]))
    gather = AllGather(_only(dim, source.rank, merge_axes((*gone, *shared))))
    return (AllSlice(_only(dim, source.rank, shared)), gather) if shared else (gather,)


def _some_of(groups: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each choice of some, none first."""
    return itertools.chain.from_iterable([itertools.combinations(groups, many) for many in range(1 + len(groups))])


def _only(dim: int, rank: int, axes: Axes) -> tuple[Axes, ...]:
    """Axes in one dimension alone."""
    return tuple([axes if one == dim else () for one in range(rank)])
