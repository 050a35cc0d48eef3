"""Decisions on the ops of one block, again and again, each time gone on from those of the first time.

What is decided on an op changes where the layouts do that it asks, or the states of what it reads; and then what it
makes may be in another state for those behind it. So only these are looked at, in order, and of them those alone are
decided on that were never so before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from shardwright.memo import once
from shardwright.partition.again.pieces import Piece
from shardwright.partition.again.sites import Site
from shardwright.partition.decisions import Layout
from shardwright.partition.values import State

__all__ = ["Asked", "BlockRuns", "Decide", "Known", "Run"]

States = tuple[State, ...]


class Known(NamedTuple):
    """What was decided on an op, and what it became.

    Attributes:
        piece: What it became.
        states: The states of values behind it, of those that it changed or made.
    """

    piece: Piece
    states: Mapping[int, State]


Decide = Callable[[Site, States], Known]
"""Decides on an op that reads values in these states."""


class Asked(NamedTuple):
    """What is asked of the values of a block.

    Attributes:
        layouts: For each value, what tells its layout.
        others: The values that are not asked what they are in the program that all others are compared with.
        results: How what the block returns is to lie.
        arguments: The states of its arguments.
    """

    layouts: Sequence[int]
    others: Set[int]
    results: tuple[Layout, ...]
    arguments: Mapping[int, State]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What was decided on all ops of a block.

    Attributes:
        asked: What was asked.
        before: For each op the states of what it reads.
        known: What was decided on each.
        pieces: What each became.
        places: The numbers of the ops that became something else than they did the first time.
        first: What was decided the first time, if not this is that.
    """

    asked: Asked
    before: list[States]
    known: list[Known]
    pieces: list[Piece]
    places: list[int]
    first: Run | None = None


class BlockRuns:
    """A block that is decided on again and again.

    Attributes:
        uses: How many operands read each value.
        fresh: The states of values that are made where they are read.
    """

    def __init__(self, sites: list[Site], uses: list[int], fresh: Mapping[int, State]) -> None:
        """Nothing has been decided yet on these sites."""
        self.sites = sites
        self.uses = uses
        self.fresh = fresh
        self.first: Run | None = None

    @once
    def _asking(self) -> dict[int, list[int]]:
        """For each value, the numbers of the ops that ask how it lies."""
        return _places([site.values for site in self.sites])

    @once
    def _reading(self) -> dict[int, list[int]]:
        """For each value, the numbers of the ops that read its state."""
        return _places([site.reads for site in self.sites])

    def run(self, asked: Asked, decide: Decide) -> Run:
        """Decide on every op."""
        if self.first is None:
            self.first = self._run_first(asked, decide)
            return self.first
        return self._run_again(self.first, asked, decide)

    def _run_first(self, asked: Asked, decide: Decide) -> Run:
        states = {**self.fresh, **asked.arguments}
        befores: list[States] = []
        known: list[Known] = []
        for number, site in enumerate(self.sites):
            before = tuple([states[value] for value in site.reads])
            befores.append(before)
            known.append(self._known(number, before, asked, decide))
            states.update(known[-1].states)
        return Run(asked, befores, known, [one.piece for one in known], [])

    def _run_again(self, first: Run, asked: Asked, decide: Decide) -> Run:
        """Look at the ops of which something is not as it was the first time, in order, and what that changes."""
        known, pieces, places = list(first.known), list(first.pieces), list[int]()
        others = {value: one for value, one in asked.arguments.items() if one is not first.asked.arguments[value]}
        waiting = self._waiting(first, asked, others)
        done = -1
        while waiting:
            number = heappop(waiting)
            if number == done:
                continue
            done, reads, old = number, self.sites[number].reads, first.known[number]
            was = first.before[number]
            before = tuple([others.get(value, state) for value, state in zip(reads, was, strict=True)])
            now = self._known(number, before, asked, decide)
            if now is old:
                continue
            known[number], pieces[number] = now, now.piece
            places.append(number)
            for value in {**old.states, **now.states}:
                here = now.states.get(value) or before[reads.index(value)]
                there = old.states.get(value) or was[reads.index(value)]
                if here is there:
                    others.pop(value, None)
                    continue
                others[value] = here
                for reader in self._reading.get(value, ()):
                    if reader > number:
                        heappush(waiting, reader)
        return Run(asked, first.before, known, pieces, places, first)

    def _waiting(self, first: Run, asked: Asked, others: Mapping[int, State]) -> list[int]:
        """The numbers of the ops that are to be looked at to begin with, as a heap."""
        waiting = set[int]()
        for value in asked.others | first.asked.others:
            if asked.layouts[value] != first.asked.layouts[value]:
                waiting.update(self._asking.get(value, ()))
        for value in others:
            waiting.update(self._reading.get(value, ()))
        if asked.results != first.asked.results:
            waiting.add(len(self.sites) - 1)
        heap = list(waiting)
        heapify(heap)
        return heap

    def _known(self, number: int, before: States, asked: Asked, decide: Decide) -> Known:
        site, layouts = self.sites[number], asked.layouts
        is_last = number == len(self.sites) - 1
        key = before, tuple([layouts[value] for value in site.values]), asked.results if is_last else None
        known: Known | None = site.known.get(key)
        if known is None:
            known = site.known[key] = decide(site, before)
        return known


def _places(values: list[tuple[int, ...]]) -> dict[int, list[int]]:
    """For each value, the numbers of the rows that have it."""
    places: dict[int, list[int]] = {}
    for number, row in enumerate(values):
        for value in row:
            if value in places:
                places[value].append(number)
            else:
                places[value] = [number]
    return places
