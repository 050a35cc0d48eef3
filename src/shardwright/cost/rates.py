"""What no chain of collectives on a torus goes below: gathers use the links that they can, and moves cross each line.

Devices differ along several atoms, each on lines of its own. Let a device hold `f` of a tensor in the end, at least `m`
on the way, and let the last layout leave some atoms unused. Then

- it comes from `m` to `f` by gathers along atoms that are unused in the end, over their links. What is gathered along
  others as well must be cut again; that is never faster by more than `of_gathers` tells.
- what changes its place is moved by an all_to_all, which takes as long as it takes to cross the middle of a line; or by
  a permute, in which all that a device has goes over one link; or it is gathered along with the rest and cut, which
  takes more than the others do.

    >>> from shardwright.cost.torus import Line
    >>> ring, pair = (Line(0, 4, 4, 4, True),), (Line(1, 2, 2, 4, True),)
    >>> rates = rates_of((ring, pair))
    >>> rates.of_gathers(0b01), rates.of_gathers(0b11)
    (2.0, 3.0)
    >>> rates.of_move
    0.5
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property

from shardwright.cost.torus import Line, Paths, join_lines, paths_along
from shardwright.memo import memoize

__all__ = ["MOST_ATOMS", "Rates", "rates_of"]

MOST_ATOMS = 10
"""Of more atoms there are too many sets to look at."""


class Rates:
    """What collectives along some of several atoms take at best, sets of which are told by bits."""

    def __init__(self, lines: tuple[tuple[Line, ...], ...]) -> None:
        """Look at nothing yet.

        Arguments:
            lines: On what lines devices along each are.
        """
        self.lines = lines
        self._paths: dict[int, Paths] = {}
        self._known: dict[int, tuple[float, float]] = {}

    def paths(self, some: int) -> Paths:
        """What goes over the busiest links of devices that differ along a set of atoms."""
        known = self._paths.get(some)
        if known is None:
            lines = [of for atom, of in enumerate(self.lines) if some >> atom & 1]
            known = self._paths[some] = paths_along(join_lines(itertools.chain(*lines)))
        return known

    @cached_property
    def counts(self) -> list[int]:
        """How many devices differ along each set of atoms."""
        counts = [1]
        for lines in self.lines:
            size = math.prod([line.size for line in lines])
            counts += [count * size for count in counts]
        return counts

    @cached_property
    def links(self) -> list[float]:
        """Over how many links at once each of them receives what all get."""
        return [1 / self.paths(some).of_gather for some in range(1 << len(self.lines))]

    @cached_property
    def of_move(self) -> float:
        """Of what a device holds, what goes over its busiest link in any all_to_all, or in half a permute."""
        least = 0.5
        for some in range(1, 1 << len(self.lines)):
            least = min(least, self.paths(some).of_exchange * (1 - 1 / self.counts[some]))
        return least

    def of_gathers(self, unused: int) -> float:
        """Over how many links at once a device comes to hold more, where a set of atoms is unused in the end."""
        return self._at_best(unused)[0]

    def of_moves(self, unused: int, moves: int) -> float:
        """Of what a device holds, what goes over its busiest link at least, besides, where so much must be moved: one
        if an all_to_all does, two if it takes two of them or a permute.
        """
        return min(moves * self.of_move, self._at_best(unused)[1]) if moves else 0.0

    def _at_best(self, unused: int) -> tuple[float, float]:
        """Links of gathers, and of what a device holds what those take more that gather along other atoms as well."""
        known = self._known.get(unused)
        if known is None:
            links, more = 1.0, math.inf
            sets = [(some, self.counts[some], self.counts[some & unused]) for some in range(1, len(self.counts))]
            for some, count, growing in sets:
                if growing > 1:
                    links = max(links, self.links[some] * (growing - 1) / (count - 1))
            for some, count, growing in sets:
                if some & ~unused:
                    more = min(more, (count - 1) / self.links[some] - (growing - 1) / links)
            known = self._known[unused] = links, more
        return known


@memoize
def rates_of(lines: tuple[tuple[Line, ...], ...]) -> Rates:
    """The rates of these atoms, once."""
    return Rates(lines)
