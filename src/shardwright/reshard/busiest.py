"""What of steps goes over the busiest link of a device, where links make a torus: see `cost.torus`."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

from shardwright.cost.torus import join_lines, paths_along
from shardwright.reshard.atoms import Atoms, Edge, Layout, Problem, SearchState
from shardwright.reshard.cuts import Cut

__all__ = ["UNIT", "Busiest"]

UNIT = 5040
"""In so many parts of a byte what goes over a link is counted: most that go over one are whole numbers of them."""

_KINDS = {"gather": "all_gather", "exchange": "all_to_all", "permute": "collective_permute"}
"""The collectives that steps are, of those that are not reductions."""


class Busiest:
    """What steps of one problem take in place of the bytes that are sent, in parts of the units of `Edges.local`; false
    where a switch joins devices, and that is the same.
    """

    def __init__(self, problem: Problem) -> None:
        """Remember nothing yet."""
        self.problem, self.lines = problem, problem.lines
        self.known: dict[tuple[str, Atoms], float] = {}

    def __bool__(self) -> bool:
        return bool(self.lines)

    @cached_property
    def tells_atoms_apart(self) -> bool:
        """Whether it makes a difference along which of some atoms of the same size devices talk."""
        kinds = {tuple([line[1:] for line in sorted(lines)]) for lines in self.lines}
        dims = [line.dim for line in itertools.chain(*self.lines)]
        return len(kinds) > 1 or len(set(dims)) < len(dims)

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
        sends across takes: of cuts with the same sides, the longest.
        """
        found: dict[tuple[tuple[int, int], ...], float] = {}
        for line in join_lines(itertools.chain(*self.lines)):
            for places in range(1, line.length):
                if line.length % places == 0:
                    every = [(atom, self._sides(atom, line.dim, places)) for atom in range(len(self.lines))]
                    if sides := tuple([(atom, many) for atom, many in every if many > 1]):
                        found[sides] = max(found.get(sides, 0.0), UNIT * places / (1 + line.closes))
        return found

    def _sides(self, atom: int, dim: int, places: int) -> int:
        """In how many parts of so many places of a dimension devices along an atom are."""
        of_dim = [line for line in self.lines[atom] if line.dim == dim]
        return math.prod([line.sides(places) for line in of_dim])

    def to_send(self, layout: Layout, partial: Atoms, sent: int) -> int:
        """What goes over the busiest link at least where so much is sent at least."""
        across = [weight * cut.to_cross(layout, partial) for cut, weight in self.cuts]
        return math.floor(max([self.fastest * sent, *across]))

    def weighed(self, state: SearchState, edge: Edge) -> Edge:
        """A step by what goes over the busiest link; by itself, since the next might go over others."""
        sent, starts, kind, after = edge
        if not sent:
            return edge
        atoms = self._moved(state, after) if kind == "permute" else self._gone(state, after)
        if after.run:
            after = SearchState(after.layout, after.partial, after.permuted, "")
        return Edge(round(UNIT * self.part(_KINDS.get(kind, "all_reduce"), atoms) * sent), max(1, starts), kind, after)

    def together(self, ready: Atoms) -> list[Atoms]:
        """What is scattered along at once."""
        ways = [itertools.permutations(ready, many) for many in range(1, 1 + len(ready))]
        return list(itertools.chain.from_iterable(ways))

    def _gone(self, state: SearchState, after: SearchState) -> Atoms:
        """Along which atoms devices talk: those that leave the ends of dimensions, or contributions."""
        gone = [atom for atom in state.partial if atom not in after.partial]
        for old, new in zip(state.layout, after.layout, strict=True):
            if len(new) < len(old):
                gone += old[len(new) :]
        return tuple(sorted(gone))

    def _moved(self, state: SearchState, after: SearchState) -> Atoms:
        """The same of a permute: those that do not stay where they were; all where the order of devices changes."""
        if state.permuted != after.permuted:
            return tuple(range(len(self.lines)))
        moved = set[int]()
        for old, new in zip(state.layout, after.layout, strict=True):
            if old != new:
                same = 0
                while same < min(len(old), len(new)) and old[same] == new[same]:
                    same += 1
                moved.update(old[same:], new[same:])
        return tuple(sorted(moved))

    def part(self, kind: str, atoms: Atoms) -> float:
        """How much of what each sends goes over its busiest link."""
        known = self.known.get((kind, atoms))
        if known is None:
            paths = paths_along(join_lines(itertools.chain(*[self.lines[atom] for atom in atoms])))
            known = self.known[kind, atoms] = paths.part_of(kind)
        return known
