"""What no chain of collectives on a torus goes below: gathers use the links that they can, and moves cross each line.

Devices differ along several atoms, each on lines of its own. Let a device hold `f` of a tensor in the end, at least `m`
on the way, and let the last layout leave some atoms unused. Then

- it comes from `m` to `f` by gathers along atoms that are unused in the end, over their links. What is gathered along
  others as well must be cut again, which counts as fewer links.
- what changes its place is moved by an all_to_all, which takes as long as it takes to cross the middle of a line; or by
  a permute, in which all that a device has goes over one link; or it is gathered along with the rest and cut.

    >>> from shardwright.cost.torus import Line
    >>> ring, pair = (Line(0, 4, 4, 4, True),), (Line(1, 2, 2, 4, True),)
    >>> rates = rates_of((ring, pair))
    >>> rates.of_gathers(0b01), rates.of_gathers(0b11)
    (2.0, 3.0)
    >>> rates.of_moves(0, Moves(2, 0b10))
    1.0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from shardwright.axes import Axes, AxisRef, common_prefix, primes_of, subtract_axes
from shardwright.cost.torus import Line, Paths, Torus, is_on_grid, join_lines, lines_of, paths_along
from shardwright.memo import memoize, once
from shardwright.mesh import Mesh

__all__ = ["Bits", "Moves", "Rates", "bits_of", "moves_between", "rates_of"]

_MOST_ATOMS = 13
"""Of more atoms there are too many sets to look at."""

_IN_ORDER = 9
"""Of more atoms it is not looked at in which order contributions are combined along them."""


class Rates:
    """What collectives along some of several atoms take at best, sets of which are told by bits."""

    def __init__(self, lines: tuple[tuple[Line, ...], ...]) -> None:
        """Look at nothing yet.

        Arguments:
            lines: On what lines devices along each are.
        """
        self.lines = lines
        self._paths: dict[int, Paths] = {}
        self._known: dict[tuple[int, int], tuple[float, float]] = {}
        self._sums: dict[int, float] = {0: 0.0}

    def paths(self, some: int) -> Paths:
        """What goes over the busiest links of devices that differ along a set of atoms."""
        known = self._paths.get(some)
        if known is None:
            lines = [of for atom, of in enumerate(self.lines) if some >> atom & 1]
            known = self._paths[some] = paths_along(join_lines(itertools.chain(*lines)))
        return known

    @property
    def is_bounded(self) -> bool:
        """Whether sets are so few that all of them can be looked at."""
        return len(self.lines) <= _MOST_ATOMS

    def count(self, some: int) -> int:
        """How many devices differ along a set of atoms."""
        of = [lines for atom, lines in enumerate(self.lines) if some >> atom & 1]
        return math.prod([line.size for lines in of for line in lines])

    @once
    def every(self) -> int:
        """All atoms."""
        return (1 << len(self.lines)) - 1

    @once
    def counts(self) -> list[int]:
        """How many devices differ along each set."""
        found = [1]
        for atom in range(len(self.lines)):
            size = self.count(1 << atom)
            found += [count * size for count in found]
        return found

    @once
    def links(self) -> list[float]:
        """Over how many links at once devices of each set receive what all get: those of all lines, or of one line what
        goes over that; one link where there is nobody.
        """
        if not self._along_dims:
            return [1.0]
        found = [sum([links for _, links, _ in lines]) for lines in zip(*self._along_dims, strict=True)]
        for along in self._along_dims:
            for some, (others, links, _) in enumerate(along):
                if others:
                    found[some] = min(found[some], (self.counts[some] - 1) * links / others)
        return [found[0] or 1.0, *found[1:]]

    @once
    def _along_dims(self) -> list[list[tuple[int, float, float]]]:
        """By dimensions of the torus: of the line on which devices stand that differ along each set, how many more than
        one these are, their links, and what crosses its middle; nothing where there is none.
        """
        return [self._along(dim) for dim in sorted({line.dim for lines in self.lines for line in lines})]

    def _along(self, dim: int) -> list[tuple[int, float, float]]:
        joined, number_of = list[Line | None]([None]), [0]
        for lines in self.lines:
            here = [line for line in lines if line.dim == dim]
            number_of += [number + len(joined) for number in number_of] if here else number_of
            if here:
                joined += [join_lines([*here, before] if before else here)[0] for before in joined]
        of_line = [(line.size - 1, line.links, line.crossing) if line else (0, 0.0, 0.0) for line in joined]
        return [of_line[number] for number in number_of]

    @once
    def crossing(self) -> list[float]:
        """Of what a device holds, what goes over its busiest link at least in an all_to_all along an atom and others.

        For each set of them that of the worst.
        """
        of_set = [max([0.0, *[of for _, _, of in lines]]) for lines in zip(*self._along_dims, strict=True)]
        found = [0.0]
        for atom in range(len(self.lines)):
            least = min([of for some, of in enumerate(of_set) if some >> atom & 1])
            found += [max(before, least) for before in found]
        return found

    @once
    def least_crossing(self) -> float:
        """The same of any all_to_all."""
        return min([self.crossing[1 << atom] for atom in range(len(self.lines))], default=0.0)

    def of_gathers(self, unused: int, at_hand: int | None = None) -> float:
        """Over how many links at once a device comes to hold more, where a set of atoms is unused in the end.

        Arguments:
            unused: The set.
            at_hand: All atoms that may be used on the way, if not all are.
        """
        return self._at_best(unused, at_hand)[0]

    def of_moves(self, unused: int, moves: Moves, at_hand: int | None = None) -> float:
        """Of what a device holds, what goes over its busiest link at least, besides, to move what is out of place."""
        if not moves.times:
            return 0.0
        worst, otherwise = self.crossing[moves.atoms], self.of_gathered_along(unused, at_hand)
        if moves.times == 1:
            return min(worst, otherwise)
        return min(worst + self.least_crossing, max(1.0, worst), otherwise)

    def of_sums(self, awaiting: int) -> float:
        """Of what a device holds after it, what goes over its busiest link at least to combine contributions.

        Along some atoms first, when there is so much the more of it, then along the others.
        """
        known = self._sums.get(awaiting)
        if known is None:
            count = self.counts[awaiting]
            if awaiting.bit_count() > _IN_ORDER:  # at most over all links
                known = (count - 1) / max(self.links)
            else:
                known, some = math.inf, awaiting
                while some:
                    taken = count / self.counts[some] * (self.counts[some] - 1) / self.links[some]
                    known, some = min(known, taken + self.of_sums(awaiting & ~some)), some - 1 & awaiting
            self._sums[awaiting] = known
        return known

    def of_gathered_along(self, unused: int, at_hand: int | None = None) -> float:
        """Of what a device holds, what goes over its busiest link more, where other atoms are gathered as well."""
        return self._at_best(unused, at_hand)[1]

    def _at_best(self, unused: int, at_hand: int | None) -> tuple[float, float]:
        """Links of gathers, and of what a device holds what those take more that gather along other atoms as well."""
        every = self.every if at_hand is None else at_hand
        known = self._known.get((unused, every))
        if known is None:
            links, more = 1.0, math.inf
            within = [some for some in range(1, len(self.counts)) if not some & ~every]
            sets = [(some, self.counts[some] - 1, self.counts[some & unused] - 1) for some in within]
            for some, lacking, growing in sets:
                if growing:
                    links = max(links, self.links[some] * growing / lacking)
            for some, lacking, growing in sets:
                if some & ~unused:
                    more = min(more, lacking / self.links[some] - growing / links)
            known = self._known[unused, every] = links, more
        return known

    def least(
        self,
        used: int,
        needed: int,
        awaiting: int,
        places: Iterable[tuple[int, int]],
        whole: float,
        at_hand: int | None = None,
    ) -> float:
        """What goes over the busiest link of a device at least to reduce, to gather and to move, one after the other.

        Arguments:
            used: The atoms that split something at first.
            needed: And those that do so in the end.
            awaiting: Those along which contributions are combined.
            places: For each dimension what splits it at first and what in the end, without what it begins with.
            whole: What there is in all.
            at_hand: All atoms that may be used on the way, if not all are.
        """
        every = self.every if at_hand is None else at_hand
        unused, moves = every & ~needed, moves_between(places, used, needed)
        links, more = self.of_gathers(unused, every), self.of_moves(unused, moves, every)
        more += self.of_sums(awaiting)
        count = self.counts
        final, held = whole / count[needed], whole / count[used | needed | awaiting]
        return min([(final - most) / links + more * most for most in (whole / count[every], held)])


class Moves(NamedTuple):
    """What is out of place of what splits something at first and in the end.

    Attributes:
        times: How often something must be moved: not at all, by an all_to_all, or by two of them or a permute, where
            something stands before another or goes where that comes from.
        atoms: What must be.
    """

    times: int
    atoms: int


def moves_between(places: Iterable[tuple[int, int]], used: int, needed: int) -> Moves:
    """What is out of place, by what splits each dimension at first and in the end, behind what it begins with."""
    times = atoms = 0
    for here, goal in places:
        leaving, entering = here & needed & ~goal, goal & used & ~here
        atoms |= leaving | (here & goal)
        times = max(times, 2 if here & goal or (leaving and entering) else int(leaving > 0))
    return Moves(times, atoms)


@memoize
def rates_of(lines: tuple[tuple[Line, ...], ...]) -> Rates:
    """The rates of these atoms, once."""
    return Rates(lines)


class Bits:
    """The axes of a mesh by their smallest parts."""

    def __init__(self, atoms: Axes, rates: Rates) -> None:
        """Look at no axis yet.

        Arguments:
            atoms: The parts, each of prime size: sets of them are told by bits.
            rates: What collectives along some of them take at best.
        """
        self.atoms, self.rates = atoms, rates
        self._known: dict[AxisRef, int] = {}

    def tells(self, axes: Iterable[AxisRef]) -> bool:
        """Whether all of some axes are made of such parts."""
        return all(self.rates.count(self._of_one(axis)) == axis.size for axis in dict.fromkeys(axes))

    def of(self, axes: Iterable[AxisRef]) -> int:
        """The parts of some axes."""
        found = 0
        for axis in axes:
            found |= self._of_one(axis)
        return found

    def _of_one(self, axis: AxisRef) -> int:
        known = self._known.get(axis)
        if known is None:
            known = sum([1 << number for number, atom in enumerate(self.atoms) if axis.contains(atom)])
            self._known[axis] = known
        return known

    def behind(self, old: Axes, new: Axes) -> tuple[int, int]:
        """The parts of two lists behind what both begin with; axes of size 1 split nothing."""
        old, new = (tuple([axis for axis in axes if axis.size > 1]) for axes in (old, new))
        same = common_prefix(old, new)
        return self.of(subtract_axes(old, same)), self.of(subtract_axes(new, same))


@memoize
def bits_of(mesh: Mesh, torus: Torus) -> Bits | None:
    """The bits of a mesh; `None` where dimensions of the torus cut its axes unevenly."""
    atoms = tuple(itertools.chain(*[primes_of(mesh.axis(name)) for name, size in mesh.axes if size > 1]))
    if not atoms or not is_on_grid(mesh, torus):
        return None
    return Bits(atoms, rates_of(tuple([lines_of((atom,), mesh, torus) for atom in atoms])))
