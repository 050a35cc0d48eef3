"""What a value takes with all of its versions: the cheapest tree from where it is made to all that read it.

Where several ends read a value in different layouts, each version is made of the first one or of another. What the
dearest of them takes tells little of that. Of few ends all is told at once, for every layout that each may have.

Source: Dreyfus and Wagner, "The Steiner problem in graphs" (1971).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from shardwright.partition.search.all_ways import Seconds
from shardwright.partition.search.rows import Numbers

__all__ = ["Together", "Trees", "are_few"]

_ENTRIES, _WORK = 100_000, 50_000_000
"""How many entries a table may have, and how many sums may be looked at to make it."""

_Ends = frozenset[int]
"""Ends that read a value, by number."""

Arc = tuple[int, int]
"""Two layouts, by number: a version in the second one is made of that in the first one."""


def are_few(layouts: int, sizes: Sequence[int]) -> bool:
    """Whether all may be told at once.

    Arguments:
        layouts: How many the value may have.
        sizes: How many it may have at each end, where it is made first.
    """
    made, *read = sizes
    together = math.prod(read)
    return made * together <= _ENTRIES and layouts * together * (made + (1 << len(read))) <= _WORK


class Together(NamedTuple):
    """A value of few ends.

    Attributes:
        table: What it takes with all of its versions, for each layout at each of its ends.
    """

    table: Seconds

    def taken(self, made: Numbers | int, read: Sequence[Numbers | int]) -> Seconds:
        """What it takes, by the number of the layout at each end: of arrays whose shapes fit each other, one by one."""
        taken: Seconds = self.table[(made, *read)]
        return taken


class Trees:
    """The cheapest trees between layouts of a value.

    Attributes:
        seconds: What it takes at least from each layout to each, by way of any.
        next: And which is the next one on the way.
    """

    def __init__(self, between: Seconds) -> None:
        """Of what it takes from each layout to each other one."""
        count = len(between)
        self.seconds = between.copy()
        self.next = np.broadcast_to(np.arange(count), between.shape).copy()  # the first layout on the way to another
        np.fill_diagonal(self.seconds, 0.0)
        for by_way in range(count):
            longer = self.seconds[:, by_way, None] + self.seconds[by_way]
            is_less = longer < self.seconds * (1 - 1e-12)
            self.seconds = np.where(is_less, longer, self.seconds)
            self.next = np.where(is_less, self.next[:, by_way, None], self.next)

    def table(self, made: Numbers, read: Sequence[Numbers]) -> Seconds:
        """What all versions take, for each layout in which a value is made and each in which each reader has it.

        Arguments:
            made: The numbers of the layouts in which it may be made.
            read: Of those in which each reader may have it.
        """
        if len(read) == 1:
            return self.seconds[made[:, None], read[0]]
        _, parted = self._told(read)
        return self._led_to(parted[frozenset(range(len(read)))], made)

    def sets(self, made: Numbers) -> Seconds:
        """What all versions take, for each layout in which a value is made and each set of those in which it is read.

        Arguments:
            made: The numbers of the layouts in which it may be made.
        """
        count = len(self.seconds)
        to = np.zeros((1 << count, count))  # by set and layout from which it is led there; none needs nothing
        for ends in range(1, 1 << count):
            if ends & (ends - 1):
                first, parts = ends & -ends, [part := ends]
                while part:
                    part = (part - 1) & ends
                    parts.append(part)
                some = np.array([part for part in parts if part & first and part != ends])
                parted = np.minimum.reduce(to[some] + to[ends ^ some], axis=0)
                to[ends] = np.minimum.reduce(self.seconds + parted, axis=1)
            else:
                to[ends] = self.seconds[:, ends.bit_length() - 1]
        return np.ascontiguousarray(to[:, made].T)

    def arcs(self, made: int, read: Sequence[int]) -> list[Arc]:
        """The versions of the cheapest tree, each with what it is made of."""
        several = [layout for layout in dict.fromkeys(read) if layout != made]
        to, parted = self._told([np.array([layout]) for layout in several])
        found: dict[Arc, None] = {}
        left: list[tuple[int, _Ends]] = [(made, frozenset(range(len(several))))] if several else []
        while left:
            here, ends = left.pop()
            if len(ends) == 1:
                (end,) = ends
                found.update(dict.fromkeys(self._path(here, several[end])))
                continue
            there = int(np.argmin(self.seconds[here] + parted[ends].ravel()))
            found.update(dict.fromkeys(self._path(here, there)))
            parts = _parts(ends)
            taken = [sum(float(to[part].ravel()[there]) for part in two) for two in parts]
            left += [(there, part) for part in parts[int(np.argmin(taken))]]
        return list(found)

    def _told(self, read: Sequence[Numbers]) -> tuple[dict[_Ends, Seconds], dict[_Ends, Seconds]]:
        """For each set of readers what leading to all of them takes from each layout, and from there if it parts there:
        with a dimension for that layout, and one for each reader.
        """
        count = len(read)
        to, parted = dict[_Ends, Seconds](), dict[_Ends, Seconds]()
        for size in range(1, count + 1):
            for ends in map(frozenset, itertools.combinations(range(count), size)):
                if size == 1:
                    (end,) = ends
                    shape = [len(self.seconds), *[1] * count]
                    shape[1 + end] = len(read[end])
                    to[ends] = self.seconds[:, read[end]].reshape(shape)
                    continue
                of_parts = [to[one] + to[other] for one, other in _parts(ends)]
                parted[ends] = least = of_parts[0]
                for other in of_parts[1:]:
                    least = np.minimum(least, other)
                parted[ends] = least
                if size < count:
                    to[ends] = self._led_to(least, np.arange(len(least)))
        return to, parted

    def _led_to(self, there: Seconds, made: Numbers) -> Seconds:
        """What it takes from each of some layouts to go to any, and what there is from there on, at least."""
        flat = there.reshape(len(there), -1)
        found = np.full((made.size, flat.shape[1]), np.inf)
        for by_way, seconds in enumerate(self.seconds[made].T):
            np.minimum(found, seconds[:, None] + flat[by_way], out=found)
        return found.reshape(-1, *there.shape[1:])

    def _path(self, before: int, after: int) -> Iterator[Arc]:
        while before != after:
            following = int(self.next[before, after])
            yield before, following
            before = following


def _parts(ends: _Ends) -> list[tuple[_Ends, _Ends]]:
    """Every way to part a set in two."""
    first, *others = sorted(ends)
    return [
        (part := frozenset((first, *some)), ends - part)
        for size in range(len(others))
        for some in itertools.combinations(others, size)
    ]
