"""What of steps goes over the busiest link of a device, where links make a torus: see `cost.torus`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import cached_property

from shardwright.cost.rates import Rates, rates_of
from shardwright.cost.torus import join_lines
from shardwright.reshard.atoms import EXCHANGE, GATHER, PERMUTE, Atoms, Layout, Problem, SearchState

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
    def needed(self) -> int:
        """The atoms that the target uses."""
        return _bits(itertools.chain(*self.problem.target))

    @cached_property
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
        pairs = itertools.starmap(_behind, zip(state.layout, self.problem.target, strict=True))
        places = [(_bits(old), _bits(new)) for old, new in pairs]
        used, whole = _bits(itertools.chain(*state.layout)), math.prod(self.problem.sizes) ** 2
        return self.rates.least(used, self.needed, _bits(state.partial), places, whole)

    def weighed(self, kind: str, atoms: Atoms, sent: int) -> int:
        """What goes over the busiest link of a step along some atoms that sends so much."""
        if not self.lines:
            return sent
        paths = self.rates.paths(_bits(atoms))
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
                moved.update(*_behind(old, new))
        return tuple(moved)


def _behind(old: Atoms, new: Atoms) -> tuple[Atoms, Atoms]:
    """What is behind that with which both begin."""
    same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        same += 1
    return old[same:], new[same:]


def _bits(atoms: Iterable[int]) -> int:
    return sum([1 << atom for atom in atoms])
