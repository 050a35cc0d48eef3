"""Which axes may go to which factors of an op: what the tensors at hand propose, and all that a mesh allows.

The tensors at hand are few, and one of them mostly has a good split already. What a mesh allows contains what they
propose, and layouts that none of them has and one all_to_all leads to; an op of `f` factors has of the order of
`(f + 1) ** k` such splits on a mesh of `k` axes, whatever their sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from shardwright.axes import Axes, AxisRef, axes_size, merge_axes
from shardwright.mesh import Mesh
from shardwright.partition.factors import FactorAxes, feasible, merge, project
from shardwright.partition.splits import Splits
from shardwright.sharding import TensorSharding

__all__ = ["Proposals", "Shardings", "Source", "from_mesh", "from_tensors", "legal_splits", "mesh_of"]

Source: TypeAlias = tuple[TensorSharding, ...]
"""The shardings in which a value exists already, the first one first; none for what any device can make (constants)."""

Shardings: TypeAlias = tuple[TensorSharding, ...]

Proposals: TypeAlias = Callable[[Splits, tuple[Source, ...], Shardings], Iterable[FactorAxes]]
"""`(how an op may be split, its operands' shardings, its results' targets) -> axes of its factors`, none twice."""


def mesh_of(sources: tuple[Source, ...], targets: Shardings) -> Mesh:
    """The mesh of an op's tensors."""
    return targets[0].mesh if targets else next(source[0].mesh for source in sources if source)


def from_tensors(splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> Iterator[FactorAxes]:
    """What the tensors at hand propose, merged in several orders, and cut to what all tensors can hold."""
    rule = splits.rule
    of_results = [project(m, rule.sizes, t.axes) for m, t in zip(rule.results, targets, strict=True)]
    of_operands = [
        project(mapping, rule.sizes, sharding.axes)
        for mapping, source in zip(rule.operands, sources, strict=True)
        for sharding in source[:2]
    ]
    orders: list[list[FactorAxes]] = [of_results + of_operands, of_operands + of_results, of_results, []]
    orders += [[first, *of_results, *of_operands] for first in of_operands]
    orders += [[*of_results, first] for first in of_operands]
    seen: set[FactorAxes] = set()
    for allowed in dict.fromkeys((splits.allowed, splits.allowed - rule.reduction)):
        for order in orders:
            merged = feasible(splits, merge(len(rule.sizes), order, allowed))
            if merged not in seen:
                seen.add(merged)
                yield merged


def from_mesh(splits: Splits, sources: tuple[Source, ...], targets: Shardings) -> Iterator[FactorAxes]:
    """All that the mesh allows, what the tensors at hand propose among it.

    Axes are cut into parts where the tensors at hand cut them, and where a factor that an axis does not divide can
    take a part of it.
    """
    mesh = mesh_of(sources, targets)
    cuts = {name: {1} for name in mesh.sizes}
    for axis in itertools.chain.from_iterable(itertools.chain(*from_tensors(splits, sources, targets))):
        cuts[axis.name] |= {axis.pre, axis.end}
    sizes = [splits.rule.sizes[factor] for factor in splits.allowed]
    return legal_splits(splits, mesh, {name: _closed(cuts[name], size, sizes) for name, size in mesh.axes})


def _closed(cuts: Iterable[int], axis_size: int, sizes: Sequence[int]) -> set[int]:
    """`cuts` of an axis, and where the rest behind any of them is cut to divide factors of these sizes."""
    closed, ahead = set(cuts), list(cuts)
    while ahead:
        pre = ahead.pop()
        more = {pre * math.gcd(axis_size // pre, size) for size in sizes}.difference(closed)
        closed |= more
        ahead += more
    return closed


def legal_splits(splits: Splits, mesh: Mesh, cuts: Mapping[str, Iterable[int]]) -> Iterator[FactorAxes]:
    """Every way to split an op over the axes of a mesh, and parts of them, each way once.

    A way is legal if its axes split factors along which the op can be computed in parts, evenly, and if every tensor
    can hold what that makes of its dimensions. The axes of a factor stand in any order.

    Arguments:
        splits: How the op may be split.
        mesh: The mesh; nothing here depends on how many devices it has.
        cuts: For each axis where it may be cut: sizes of its major parts, which divide its size.
    """
    rule = splits.rule
    room = {factor: rule.sizes[factor] for factor in sorted(splits.allowed) if rule.sizes[factor] > 1}
    chains = [list(_chains(mesh.axis(name), cuts[name])) for name, size in mesh.axes if size > 1]
    for chain in itertools.product(*chains):
        parts = tuple(itertools.chain(*chain))
        for factors in _dealt(parts, room, ((),) * len(rule.sizes)):
            if _is_merged(parts, factors) and feasible(splits, factors) == factors:
                yield factors


def _chains(axis: AxisRef, cuts: Iterable[int]) -> Iterator[Axes]:
    """An axis as a whole, and cut at each set of places that nest."""
    inner = sorted(cut for cut in set(cuts) if 1 < cut < axis.size)
    for count in range(len(inner) + 1):
        for places in itertools.combinations(inner, count):
            pairs = list(itertools.pairwise((1, *places, axis.size)))
            if all(end % pre == 0 for pre, end in pairs):
                yield tuple(AxisRef(axis.name, pre, end // pre) for pre, end in pairs)


def _dealt(parts: Axes, room: Mapping[int, int], dealt: FactorAxes) -> Iterator[FactorAxes]:
    """Every way to deal `parts` to factors, each part at any place of one of them or not at all.

    `room` has the sizes of the factors that take any.
    """
    if not parts:
        yield dealt
        return
    part, *rest = parts
    yield from _dealt(tuple(rest), room, dealt)
    for factor, size in room.items():
        held = dealt[factor]
        if size % (axes_size(held) * part.size):
            continue
        for place in range(len(held) + 1):
            axes = (*held[:place], part, *held[place:])
            yield from _dealt(tuple(rest), room, (*dealt[:factor], axes, *dealt[factor + 1 :]))


def _is_merged(parts: Axes, factors: FactorAxes) -> bool:
    """Whether no cut could be left out: none is inside a factor's axes, and none between parts that nobody uses."""
    used = {axis for axes in factors for axis in axes}
    cuts = ((major, minor) for major, minor in itertools.pairwise(parts) if major.joins(minor))
    return all(merge_axes(axes) == axes for axes in factors) and all(used.intersection(cut) for cut in cuts)
