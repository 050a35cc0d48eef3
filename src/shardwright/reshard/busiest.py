"""What of steps goes over the busiest link of a device, where links make a torus: see `cost.torus`."""

from __future__ import annotations

import itertools
import math

from shardwright.cost.rates import Rates, rates_of
from shardwright.cost.torus import join_lines
from shardwright.memo import once
from shardwright.reshard.atoms import EXCHANGE, GATHER, PERMUTE, Atoms, Layout, Problem, SearchState

__all__ = ["UNIT", "Busiest"]

UNIT = 5040
"""In so many parts of a byte what goes over a link is counted: most that go over one are whole numbers of them."""

_KINDS = {GATHER: "all_gather", EXCHANGE: "all_to_all", PERMUTE: "collective_permute"}
"""The collectives that steps are, of those that are not reductions."""


class Busiest:
    """What steps of one problem take in place of the bytes that are sent, in parts of the units of `Edges.local`, where
    links make a torus: where a switch joins devices, there is nothing but those bytes, and none of this.
    """

    def __init__(self, problem: Problem) -> None:
        """Remember nothing yet."""
        self.problem, self.lines = problem, problem.lines
        self.is_exact = problem.is_on_grid and not any(problem.clashes)
        self._sets: dict[Atoms, int] = {}
        self._behind: dict[tuple[Atoms, Atoms], tuple[int, int]] = {}
        self._parts: dict[tuple[str, int], float] = {}

    @once
    def tells_atoms_apart(self) -> bool:
        """Whether it makes a difference along which of some atoms of the same size devices talk."""
        kinds = {tuple([line[1:] for line in sorted(lines)]) for lines in self.lines}
        dims = [line.dim for line in itertools.chain(*self.lines)]
        return len(kinds) > 1 or len(set(dims)) < len(dims)

    @once
    def rates(self) -> Rates:
        """What collectives along some of the atoms take at best."""
        return rates_of(self.lines)

    @once
    def needed(self) -> int:
        """The atoms that the target uses."""
        return sum(map(self._bits, self.problem.target))

    @once
    def fastest(self) -> float:
        """How much counts at least of what is sent."""
        links = sum([1 + line.is_ring for line in join_lines(itertools.chain(*self.lines))])
        return UNIT / max(1, links)

    def to_send(self, state: SearchState, sent: int) -> int:
        """What goes over the busiest link at least where so much is sent at least."""
        if not self.is_exact:
            return math.floor(self.fastest * sent)
        return math.floor(max(self.fastest * sent, UNIT * self._to_grow(state)))

    def _to_grow(self, state: SearchState) -> float:
        """What it takes at least to reduce, to gather and to move what is out of place, one after the other."""
        if not state.permuted:
            return 0.0
        places = list(map(self._apart, state.layout, self.problem.target))
        used = sum(map(self._bits, state.layout))
        return self.rates.least(used, self.needed, self._bits(state.partial), places, self._whole)

    @once
    def _whole(self) -> float:
        """What there is in all, so that all is a whole number of parts."""
        return float(math.prod(self.problem.sizes) ** 2)

    def weighed(self, kind: str, atoms: Atoms, sent: int) -> int:
        """What goes over the busiest link of a step along some atoms that sends so much."""
        return self._over(kind, self._bits(atoms), sent)

    def handed_on(self, before: SearchState, after: Layout, held: int) -> int:
        """The same of a permute of so much."""
        return self._over(PERMUTE, self._moved(before, after), held)

    def _over(self, kind: str, some: int, sent: int) -> int:
        known = self._parts.get((kind, some))
        if known is None:
            part = self.rates.paths(some).part_of(_KINDS.get(kind, "all_reduce"))
            known = self._parts[kind, some] = UNIT * part
        return round(known * sent)

    def together(self, ready: Atoms) -> list[Atoms]:
        """What is scattered along at once."""
        ways = [itertools.permutations(ready, many) for many in range(1, 1 + len(ready))]
        return list(itertools.chain.from_iterable(ways))

    def _moved(self, before: SearchState, after: Layout) -> int:
        """Along which atoms devices talk in a permute: those that do not stay where they were; all where the order of
        devices changes.
        """
        if not before.permuted:
            return self.rates.every
        moved = 0
        for old, new in zip(before.layout, after, strict=True):
            if old != new:
                leaving, entering = self._apart(old, new)
                moved |= leaving | entering
        return moved

    def _bits(self, atoms: Atoms) -> int:
        """Some atoms as a set."""
        known = self._sets.get(atoms)
        if known is None:
            known = self._sets[atoms] = sum([1 << atom for atom in atoms])
        return known

    def _apart(self, old: Atoms, new: Atoms) -> tuple[int, int]:
        """The atoms of each behind that with which both begin."""
        known = self._behind.get((old, new))
        if known is None:
            same = 0
            for one, other in zip(old, new, strict=False):
                if one != other:
                    break
                same += 1
            known = self._behind[old, new] = self._bits(old[same:]), self._bits(new[same:])
        return known
