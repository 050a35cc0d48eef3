"""Layouts as numbers, of which tables are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes, axes_size
from shardwright.memo import memoize
from shardwright.mesh import Mesh
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.rows import Numbers
from shardwright.sharding import Partial

__all__ = ["Lying", "are_even", "lying_of"]


class Lying(NamedTuple):
    """Some layouts as numbers.

    Attributes:
        axes: All that dimensions are split along, each once.
        numbers: For each layout and dimension, which of them.
        parts: And into how many parts.
        sums: All along which they are partial, each once: of what is complete nothing.
        sum_of: For each layout, which of them.
        meshes: Their meshes.
        is_even: Whether all parts of a dimension are told by how many they are.
    """

    axes: tuple[Axes, ...]
    numbers: Numbers
    parts: Numbers
    sums: tuple[tuple[Partial, ...], ...]
    sum_of: Numbers
    meshes: frozenset[Mesh]
    is_even: bool

    @property
    def sum_sizes(self) -> Numbers:
        """Of how many contributions each of the sums is."""
        return np.array([axes_size([p.axis for p in partial]) for partial in self.sums], dtype=np.intp)


@memoize
def lying_of(layouts: Shardings) -> Lying:
    """Layouts as numbers: those of few lists are between all tables."""
    known: dict[Axes, int] = {}
    numbers = np.array([[known.setdefault(axes, len(known)) for axes in one.axes] for one in layouts], dtype=np.intp)
    sizes = np.array(list(map(axes_size, known)), dtype=np.intp)
    sums: dict[tuple[Partial, ...], int] = {}
    sum_of = np.array([sums.setdefault(one.partial, len(sums)) for one in layouts], dtype=np.intp)
    is_even = all(layout.offsets is None and layout.halos is None for layout in layouts)
    meshes = frozenset({id(one.mesh): one.mesh for one in layouts}.values())
    return Lying(tuple(known), numbers, sizes[numbers], tuple(sums), sum_of, meshes, is_even)


def are_even(before: Lying, after: Lying) -> bool:
    """Whether all layouts are of one mesh, and of even parts."""
    return before.is_even and after.is_even and len(before.meshes | after.meshes) == 1
