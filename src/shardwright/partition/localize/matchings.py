"""In which turn a part goes from the device that has it to the one that waits for it: one from and to each in a turn.

Shards of a dimension are cut into as many parts as shards of another layout they meet, and these are joined of as many.
That repeats itself from the shards that begin where one of the other layout does: what is told here are the devices of
one such period.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from shardwright.memo import memoize

__all__ = ["Turn", "is_in_line", "turns_between"]


class Turn(NamedTuple):
    """What is sent in a turn.

    Attributes:
        parts: For each of the devices that those of one period hold shards of, the number of the part that it sends.
        places: For each that waits for shards of it, the number of the part that it gets.
    """

    parts: tuple[int, ...]
    places: tuple[int, ...]


def is_in_line(cut: tuple[int, ...], joined: tuple[int, ...]) -> bool:
    """Whether no dimension is both cut and joined, so that the part of a turn is so many behind the device's number."""
    return all(1 in pair for pair in zip(cut, joined, strict=True))


@memoize
def turns_between(cut: tuple[int, ...], joined: tuple[int, ...]) -> tuple[Turn, ...]:
    """The turns in which all parts go from where they are cut to where they are joined, one from and to each device.

    Each device cuts as many parts as are joined on each, so that they can be dealt into as many turns: a bipartite
    graph of equal degrees falls into perfect matchings (König). Parts and devices are numbered dimension by dimension.

    >>> turns_between((2, 1), (1, 2))
    (Turn(parts=(0, 1), places=(0, 1)), Turn(parts=(1, 0), places=(1, 0)))
    """
    count = math.prod(cut)
    if is_in_line(cut, joined):
        numbers = range(count)
        return tuple(
            [
                Turn(tuple([(n + turn) % count for n in numbers]), tuple([(n - turn) % count for n in numbers]))
                for turn in numbers
            ]
        )
    left = _parts(cut, joined)
    turns: list[Turn] = []
    for _ in range(count):
        matched = _matching(left)
        parts, places = [0] * count, [0] * count
        for receiver, sender in matched.items():
            parts[sender], places[receiver] = left[sender][receiver].pop(0)
        turns.append(Turn(tuple(parts), tuple(places)))
    return tuple(turns)


_Parts = list[dict[int, list[tuple[int, int]]]]
"""For each sender and receiver the parts that go between them: their numbers here and there."""


def _parts(cut: tuple[int, ...], joined: tuple[int, ...]) -> _Parts:
    parts: _Parts = [{} for _ in range(math.prod(joined))]
    for cell in itertools.product(*[range(more * fewer) for more, fewer in zip(cut, joined, strict=True)]):
        sender = receiver = here = there = 0
        for index, more, fewer in zip(cell, cut, joined, strict=True):
            sender, here = sender * fewer + index // more, here * more + index % more
            receiver, there = receiver * more + index // fewer, there * fewer + index % fewer
        parts[sender].setdefault(receiver, []).append((here, there))
    return parts


def _matching(parts: _Parts) -> dict[int, int]:
    """Each receiver with a sender that has a part for it, no two with the same."""
    matched: dict[int, int] = {}

    def match(sender: int, seen: set[int]) -> bool:
        for receiver in [receiver for receiver, numbers in parts[sender].items() if numbers]:
            if receiver in seen:
                continue
            seen.add(receiver)
            if receiver not in matched or match(matched[receiver], seen):
                matched[receiver] = sender
                return True
        return False

    for sender in range(len(parts)):
        assert match(sender, set()), "as many parts are left for each"
    return matched
