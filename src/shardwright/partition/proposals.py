"""Which axes may go to which factors of an op: what the tensors at hand propose, and all that a mesh allows.

The tensors at hand are few, and one of them mostly has a good split already. What a mesh allows contains what they
propose, and layouts that none of them has and one all_to_all leads to; an op of `f` factors has of the order of
`(f + 1) ** k` such splits on a mesh of `k` axes, however many devices these have.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from shardwright.axes import AxisRef, axes_size, merge_axes, truncate_by_divisor
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.factors import FactorAxes, feasible, merge, project
from shardwright.partition.joined_axes import Groups, JoinedAxes
from shardwright.partition.splits import Splits
from shardwright.rules.rule import DimFactors, ShardingRule
from shardwright.sharding import TensorSharding

__all__ = [
    "Intended",
    "Proposals",
    "Shardings",
    "Source",
    "from_mesh",
    "from_tensors",
    "legal_splits",
    "mesh_of",
    "without_sums",
]

Source: TypeAlias = tuple[TensorSharding, ...]
"""The shardings in which a value exists already, the first one first; none for what any device can make (constants)."""

Shardings: TypeAlias = tuple[TensorSharding, ...]

Intended: TypeAlias = tuple[tuple[int, TensorSharding], ...]
"""Operands that are nothing but parts of a sum so far and read by several ops, with how they shall lie once whole."""

Proposals: TypeAlias = Callable[[Splits, tuple[Source, ...], Shardings], Iterable[FactorAxes]]
"""`(how an op may be split, its operands' shardings, its results' targets) -> axes of its factors`, none twice."""


def mesh_of(sources: tuple[Source, ...], targets: Shardings) -> Mesh:
    """The mesh of an op's tensors."""
    return targets[0].mesh if targets else next(source[0].mesh for source in sources if source)


def from_tensors(splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> Iterator[FactorAxes]:
    """What the tensors at hand propose, merged in several orders, and cut to what all tensors can hold.

    Many tensors of an op lie alike: an order is merged once, however often it comes, and what is proposed in it twice
    adds nothing the second time.
    """
    rule = splits.rule
    of_operands, of_results = _at_hand(splits, sources, targets)
    different = list(dict.fromkeys(filter(any, (*of_results, *of_operands))))
    disagree, orders = False, [different, []] if different else [[]]
    if len(different) > 1:
        disagree, orders = _disagree(different), _different_orders(of_results, of_operands)
    without = splits.allowed - rule.reduction - splits.exchanged
    is_less = any(tensor[factor] for factor in splits.allowed - without for tensor in different)
    seen: set[FactorAxes] = set()
    for allowed in (splits.allowed, without) if is_less else (splits.allowed,):
        for order in orders:
            for behind in (False, True) if disagree else (False,):
                proposed = merge(len(rule.sizes), order, allowed, behind=behind)
                if behind:  # each divided by itself
                    proposed = tuple(map(truncate_by_divisor, proposed, rule.sizes))
                merged = feasible(splits, proposed)
                if merged not in seen:
                    seen.add(merged)
                    yield merged
    # What reductions exchange inside is as small as their results, and stays where it is.
    elsewhere = frozenset(range(len(rule.sizes))) - splits.allowed | (splits.exchanged - rule.reduction)
    for moved in _moved(splits, dict.fromkeys((*of_operands, *of_results)), elsewhere):
        if moved not in seen:
            seen.add(moved)
            yield moved


def without_sums(splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> Iterator[FactorAxes]:
    """What operands propose, where axes of a factor that is summed go to one that is not: an all_to_all leads there.

    The sum of a result is as large as that, on every device; parts of it that need no sum are gathered at half of what
    it sends.
    """
    of_operands, _ = _at_hand(splits, sources, targets)
    yield from dict.fromkeys(_moved(splits, dict.fromkeys(of_operands), splits.contributing))


def _at_hand(
    splits: Splits, sources: tuple[Source, ...], targets: Shardings
) -> tuple[list[FactorAxes], list[FactorAxes]]:
    """What operands propose, the first two versions of each, and what results do."""
    rule = splits.rule
    of_operands = [
        project(mapping, rule.sizes, sharding.axes)
        for mapping, source in zip(rule.operands, sources, strict=True)
        for sharding in source[:2]
    ]
    return of_operands, [project(m, rule.sizes, t.axes) for m, t in zip(rule.results, targets, strict=True)]


def _disagree(tensors: Sequence[FactorAxes]) -> bool:
    """Whether two tensors have axes for a factor of which neither's are where the other's begin."""
    for proposed in map(set, zip(*tensors, strict=True)):
        longest = max(proposed, key=len)
        if any(longest[: len(axes)] != axes for axes in proposed):
            return True
    return False


def _different_orders(of_results: list[FactorAxes], of_operands: list[FactorAxes]) -> list[list[FactorAxes]]:
    """Orders in which to merge what results and operands propose, each once and each proposal once in it."""
    number: dict[FactorAxes, int] = {}
    results, operands = (
        [number.setdefault(proposed, len(number)) for proposed in filter(any, tensors)]
        for tensors in (of_results, of_operands)
    )
    orders = dict.fromkeys([tuple(dict.fromkeys(order)) for order in _orders(results, operands)])
    proposals = list(number)
    return [[proposals[one] for one in order] for order in orders]


def _orders(of_results: list[int], of_operands: list[int]) -> Iterator[list[int]]:
    """Orders of what results and operands propose, by number."""
    yield of_results + of_operands
    yield of_operands + of_results
    yield of_results
    yield []
    for first in of_operands:
        yield [first, *of_results, *of_operands]
    for first in of_operands:
        yield [*of_results, first]


def _moved(splits: Splits, tensors: Iterable[FactorAxes], elsewhere: frozenset[int]) -> Iterator[FactorAxes]:
    """What a tensor proposes, where axes of factors that are split elsewhere go to one that is local: an all_to_all
    leads there.

    A sort along a split dimension sorts parts of the others so, instead of all of it on every device.
    """
    rule = splits.rule
    stays = splits.allowed - elsewhere
    for held in tensors if elsewhere else ():
        lost = [axes for factor, axes in enumerate(held) if axes and factor in elsewhere]
        if not lost:
            continue
        kept = merge(len(rule.sizes), [held], stays)
        for axes in dict.fromkeys((sum(lost, ()), *lost)):
            for to in sorted(stays - splits.exchanged) if axes else ():
                if rule.sizes[to] % (axes_size(kept[to]) * axes_size(axes)) == 0:
                    yield feasible(splits, (*kept[:to], merge_axes(kept[to] + axes), *kept[to + 1 :]))


def from_mesh(
    splits: Splits, sources: tuple[Source, ...], targets: Shardings, groups: Groups = ()
) -> Iterator[FactorAxes]:
    """What the tensors at hand propose, and then all else that the mesh allows, its axes cut as theirs are.

    Arguments:
        splits: How the op may be split.
        sources: Its operands' shardings.
        targets: Its results' targets.
        groups: The axes of the mesh by those that all else does not tell apart; none where it may.
    """
    mesh = mesh_of(sources, targets)
    proposed = itertools.chain(from_tensors(splits, sources, targets), without_sums(splits, sources, targets))
    at_hand = dict.fromkeys(tuple(map(merge_axes, factors)) for factors in proposed)
    cuts = {name: {1} for name in mesh.sizes}
    for axis in itertools.chain.from_iterable(itertools.chain(*at_hand)):
        cuts[axis.name] |= {axis.pre, axis.end}
    yield from at_hand
    rule = splits.rule
    cut = tuple([(name, tuple(sorted(places))) for name, places in cuts.items()])
    for factors in _legal_splits(rule.sizes, splits.allowed, splits.bounds, rule.joined, mesh, cut, groups):
        if factors not in at_hand:
            yield factors


class _Listed:
    """What an iterator gives, as far as anybody has asked, and again for who else asks."""

    def __init__(self, rest: Iterator[FactorAxes]) -> None:
        self.found: list[FactorAxes] = []
        self.rest = rest

    def __iter__(self) -> Iterator[FactorAxes]:
        for number in itertools.count():
            if number == len(self.found):
                following = next(self.rest, None)
                if following is None:
                    return
                self.found.append(following)
            yield self.found[number]


@memoize
def _legal_splits(
    sizes: tuple[int, ...],
    allowed: frozenset[int],
    bounds: tuple[int, ...],
    joined: tuple[DimFactors, ...],
    mesh: Mesh,
    cuts: tuple[tuple[str, tuple[int, ...]], ...],
    groups: Groups,
) -> _Listed:
    """`legal_splits` by what they depend on, which many ops have in common."""
    splits = Splits(ShardingRule(sizes, (joined,), ()), allowed, "sum", (), 0, bounds=bounds)
    if not groups:
        return _Listed(legal_splits(splits, mesh, dict(cuts)))
    joined_axes = JoinedAxes(mesh, groups)
    apart = map(joined_axes.apart, legal_splits(splits, joined_axes.mesh, joined_axes.cuts(dict(cuts))))
    return _Listed(factors for factors in apart if factors is not None)


def legal_splits(splits: Splits, mesh: Mesh, cuts: Mapping[str, Collection[int]]) -> Iterator[FactorAxes]:
    """Every way to split an op over the axes of a mesh, each once, those of fewer axes first.

    Axes go to factors along which the op can be computed in parts, any to any and in any order, if every tensor can
    hold what that makes of its dimensions. They stay whole but where a factor cannot take one evenly: it takes as much
    as it can of the major part, and others may take of the rest.

    Arguments:
        splits: How the op may be split.
        mesh: The mesh; nothing here depends on how many devices it has.
        cuts: Where axes may be cut besides: for each axis, sizes of its major parts.
    """
    rule = splits.rule
    room = {factor: rule.sizes[factor] for factor in sorted(splits.allowed) if rule.sizes[factor] > 1}
    whole: FactorAxes = ((),) * len(rule.sizes)
    seen, ahead = {whole}, deque([whole])
    while ahead:
        factors = ahead.popleft()
        if feasible(splits, factors) == factors:
            yield factors
        free = _free(mesh, factors, cuts)
        for factor, size in room.items() if free else ():
            held = factors[factor]
            for part in _next_parts(free, size // axes_size(held) if held else size):
                after = (*factors[:factor], merge_axes((*held, part)), *factors[factor + 1 :])
                if after not in seen:
                    seen.add(after)
                    ahead.append(after)


_Places = list[tuple[str, set[int], int, list[int]]]
"""Of axes that are not used up: the name, where parts may begin, the size, and where they may end besides."""


def _free(mesh: Mesh, factors: FactorAxes, cuts: Mapping[str, Collection[int]]) -> _Places:
    """What is left of the axes of a mesh, behind what is used, and from their cuts on."""
    ends = dict.fromkeys(mesh.sizes, 1)
    for axes in factors:
        for axis in axes:
            ends[axis.name] = max(ends[axis.name], axis.end)
    free: _Places = []
    for name, size in mesh.axes:
        if ends[name] < size and name not in mesh.manual:
            places = list(cuts.get(name, ()))
            free.append((name, {ends[name], *[cut for cut in places if cut % ends[name] == 0]}, size, places))
    return free


def _next_parts(free: _Places, left: int) -> Iterator[AxisRef]:
    """Of every axis what divides `left`, the rest behind what is used; and parts between its cuts."""
    if left == 1:
        return
    for name, begins, size, places in free:
        for pre in begins:
            most = math.gcd(size // pre, left)
            sizes = {most, *[cut // pre for cut in places if cut % pre == 0 and left % (cut // pre) == 0]}
            yield from [AxisRef(name, pre, part) for part in sorted(sizes) if part > 1]
