"""What of steps goes over the busiest link of a device, where links make a torus: see `cost.torus`."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

from shardwright.cost.rates import Rates, rates_of
from shardwright.cost.torus import join_lines
from shardwright.reshard.atoms import EXCHANGE, GATHER, PERMUTE, Atoms, Layout, Problem, SearchState
from shardwright.reshard.cuts import Cut

__all__ = ["UNIT", "Busiest"]

UNIT = 5040
"""In so many parts of a byte what goes over a link is counted: most that go over one are whole numbers of them."""

_KINDS = {GATHER: "all_gather", EXCHANGE: "all_to_all", PERMUTE: "collective_permute"}
"""The collectives that steps are, of those that are not reductions."""


class Busiest:
    """What steps of one problem take in place of the bytes that are sent, in parts of the units of `Edges.local`; false
    where a switch joins devices, and that is the same.
    """

    def __init__(self, problem: Problem) -> None:
        """Remember nothing yet."""
        self.problem, self.lines = problem, problem.lines
        self.is_exact = problem.is_on_grid and not any(problem.clashes)
        self.every, self.whole = (1 << len(problem.sizes)) - 1, math.prod(problem.sizes) ** 2

    def __bool__(self) -> bool:
        return bool(self.lines)

    @cached_property
    def tells_atoms_apart(self) -> bool:
        """Whether it makes a difference along which of some atoms of the same size devices talk."""
        kinds = {tuple([line[1:] for line in sorted(lines)]) for lines in self.lines}
        dims = [line.dim for line in itertools.chain(*self.lines)]
        return len(kinds) > 1 or len(set(dims)) < len(dims)

    @cached_property
    def rates(self) -> Rates:
        """What collectives along some of the atoms take at best."""
        return rates_of(self.lines)

    @cached_property
    def target_used(self) -> int:
        """The atoms that the target uses."""
        return sum([1 << atom for atoms in self.problem.target for atom in atoms])

    @cached_property
    def fastest(self) -> float:
        """How much counts at least of what is sent."""
        links = sum([1 + line.is_ring for line in join_lines(itertools.chain(*self.lines))])
        return UNIT / max(1, links)

    @cached_property
    def cuts(self) -> list[tuple[Cut, float]]:
        """All cuts, and how long what a device sends across takes."""
        return [(Cut(self.problem, dict(sides)), weight) for sides, weight in self._cuts().items()]

    def _cuts(self) -> dict[tuple[tuple[int, int], ...], float]:
        """All cuts of a dimension into parts of so many places, by the sides that they have, and how long what a device
        sends across takes: of cuts with the same sides, the longest. No side may have more devices than another.
        """
        found: dict[tuple[tuple[int, int], ...], float] = {}
        for line in join_lines(itertools.chain(*self.lines)):
            cut = [[(atom, one) for one in lines if one.dim == line.dim] for atom, lines in enumerate(self.lines)]
            along = tuple(itertools.chain(*cut))
            for places in range(1, line.length):
                sides = tuple([(atom, one.sides(places)) for atom, one in along if one.sides(places) > 1])
                is_even = line.length % places == 0 and all(one.is_cut_evenly(places) for _, one in along)
                if sides and is_even:
                    found[sides] = max(found.get(sides, 0.0), UNIT * places / (1 + line.closes))
        return found

    def to_send(self, state: SearchState, sent: int) -> int:
        """What goes over the busiest link at least where so much is sent at least."""
        if not self.is_exact:
            return math.floor(self.fastest * sent)
        across = [weight * cut.to_cross(state.layout, state.partial) for cut, weight in self.cuts]
        return math.floor(max([self.fastest * sent, *across, UNIT * self._to_grow(state)]))

    def _to_grow(self, state: SearchState) -> float:
        """What it takes at least to reduce, to gather and to move what is out of place, one after the other: see
        `cost.rates`.
        """
        if not state.permuted:
            return 0.0
        used, misplaced = self._out_of_place(state.layout)
        summed = sum([1 << atom for atom in state.partial])
        counts = self.rates.counts
        final, least = self.whole / counts[self.target_used], self.whole / counts[-1]
        held = self.whole / counts[used | self.target_used | summed]
        unused = self.every & ~self.target_used
        links, moves = self.rates.of_gathers(unused), self.rates.of_moves(unused, misplaced)
        sums = (counts[summed] - 1) / self.rates.links[summed]
        return float(min([(final - most) / links + (moves + sums) * most for most in (least, held)]))

    def _out_of_place(self, layout: Layout) -> tuple[int, int]:
        """Which atoms a layout uses, and how much is to be moved of those that the target uses too: nothing, what one
        all_to_all does, or what takes two.
        """
        used = sum([1 << atom for atoms in layout for atom in atoms])
        moves = 0
        for old, new in zip(layout, self.problem.target, strict=True):
            same = 0
            while same < min(len(old), len(new)) and old[same] == new[same]:
                same += 1
            here, goal = (sum([1 << atom for atom in atoms[same:]]) for atoms in (old, new))
            leaving, entering = here & self.target_used & ~goal, goal & used & ~here
            if here & goal or (leaving and entering):
                return used, 2
            if leaving:
                moves = 1
        return used, moves

    def weighed(self, kind: str, atoms: Atoms, sent: int) -> int:
        """What goes over the busiest link of a step along some atoms that sends so much."""
        if not self.lines:
            return sent
        paths = self.rates.paths(sum([1 << atom for atom in atoms]))
        return round(UNIT * paths.part_of(_KINDS.get(kind, "all_reduce")) * sent)

    def together(self, ready: Atoms) -> list[Atoms]:
        """What is scattered along at once."""
        ways = [itertools.permutations(ready, many) for many in range(1, 1 + len(ready))]
        return list(itertools.chain.from_iterable(ways))

    def moved(self, before: SearchState, after: Layout) -> Atoms:
        """Along which atoms devices talk in a permute: those that do not stay where they were; all where the order of
        devices changes.
        """
        if not before.permuted:
            return tuple(range(len(self.lines)))
        moved = set[int]()
        for old, new in zip(before.layout, after, strict=True):
            if old != new:
                same = 0
                while same < min(len(old), len(new)) and old[same] == new[same]:
                    same += 1
                moved.update(old[same:], new[same:])
        return tuple(moved)
