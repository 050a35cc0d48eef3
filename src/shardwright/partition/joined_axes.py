"""Axes that a program never tells apart, as one: a batch that is split over pods and, in each, over replicas."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

from shardwright.axes import Axes, AxisRef
from shardwright.mesh import Mesh
from shardwright.partition.factors import FactorAxes
from shardwright.sharding import TensorSharding

__all__ = ["JoinedAxes", "Groups", "axes_together"]

Groups = tuple[tuple[str, ...], ...]
"""The axes of a mesh by name, in its order: those together that are not told apart."""


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


class JoinedAxes:
    """The axes of a mesh joined to one for each group.

    Attributes:
        mesh: The mesh of these.
    """

    def __init__(self, mesh: Mesh, groups: Groups) -> None:
        """Those of a mesh, all of which are in the groups."""
        self.sizes = mesh.sizes
        self.groups = {"+".join(group): group for group in groups}
        sizes = {name: math.prod(map(self.sizes.__getitem__, group)) for name, group in self.groups.items()}
        self.mesh = Mesh(sizes).inside(mesh.manual)

    def cuts(self, cuts: Mapping[str, Iterable[int]]) -> dict[str, set[int]]:
        """Where they may be cut, by where those that are joined may: within one of these, not between."""
        return {name: set(self._within(group, cuts)) for name, group in self.groups.items()}

    def _within(self, group: tuple[str, ...], cuts: Mapping[str, Iterable[int]]) -> Iterator[int]:
        before = 1
        for name in group:
            yield from [before * cut for cut in cuts.get(name, ()) if 1 < cut < self.sizes[name]]
            before *= self.sizes[name]
        yield from (1, before)

    def apart(self, factors: FactorAxes) -> FactorAxes | None:
        """A split by them as one by those that are joined; `None` where these cannot be cut so."""
        found: list[Axes] = []
        for axes in factors:
            parts = self._apart(axes)
            if parts is None:
                return None
            found.append(parts)
        return tuple(found)

    def _apart(self, axes: Axes) -> Axes | None:
        found: list[AxisRef] = []
        for axis in axes:
            before = 1
            for name in self.groups[axis.name]:
                size = self.sizes[name]
                begin, end = max(axis.pre, before), min(axis.end, before * size)
                if begin < end:
                    if begin % before or end % begin or before * size % end:
                        return None
                    found.append(AxisRef(name, begin // before, end // begin))
                before *= size
        return tuple(found)
