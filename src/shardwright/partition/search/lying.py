"""Layouts as numbers, of which tables are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shardwright.axes import Axes, axes_size
from shardwright.memo import memoize
from shardwright.partition.proposals import Shardings
from shardwright.partition.search.all_ways import Numbers
from shardwright.sharding import Partial

__all__ = ["Lying", "are_even", "lying_of"]


class Lying(NamedTuple):
    """Some layouts as numbers.

    Attributes:
        axes: All that dimensions are split along, each once.
        numbers: For each layout and dimension, which of them.
        parts: And into how many parts.
        partial: By the axes along which they are partial, which layouts: all those that are complete by none.
        is_even: Whether all parts of a dimension are told by how many they are.
    """

    axes: tuple[Axes, ...]
    numbers: Numbers
    parts: Numbers
    partial: dict[tuple[Partial, ...], Numbers]
    is_even: bool


@memoize
def lying_of(layouts: Shardings) -> Lying:
    """Layouts as numbers: those of few lists are between all tables."""
    known: dict[Axes, int] = {}
    numbers = np.array([[known.setdefault(axes, len(known)) for axes in one.axes] for one in layouts], dtype=np.intp)
    sizes = np.array(list(map(axes_size, known)), dtype=np.intp)
    partial: dict[tuple[Partial, ...], list[int]] = {}
    for number, layout in enumerate(layouts):
        partial.setdefault(layout.partial, []).append(number)
    groups = {along: np.array(some, dtype=np.intp) for along, some in partial.items()}
    is_even = all(layout.offsets is None and layout.halos is None for layout in layouts)
    return Lying(tuple(known), numbers, sizes[numbers], groups, is_even)


def are_even(sources: Shardings, targets: Shardings) -> bool:
    """Whether all layouts are of one mesh, and of even parts."""
    is_even = lying_of(sources).is_even and lying_of(targets).is_even
    return is_even and all(layout.mesh == sources[0].mesh for layout in (*sources, *targets))
