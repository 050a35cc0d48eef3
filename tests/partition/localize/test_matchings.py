"""Parts that are dealt into turns: each goes once, one from and to each device in a turn."""

from __future__ import annotations

import itertools
import math

import pytest

from shardwright.partition.localize.matchings import is_in_line, turns_between

CASES = [
    ((2, 1), (1, 2)),
    ((4, 1, 1), (1, 2, 2)),
    ((2, 3), (3, 2)),
    ((3, 4), (4, 3)),
    ((3, 2, 1), (2, 1, 3)),
    ((5, 3), (3, 5)),
]


@pytest.mark.parametrize(("cut", "joined"), CASES)
def test_every_part_goes_once_and_each_device_has_one_in_a_turn(cut: tuple[int, ...], joined: tuple[int, ...]) -> None:
    count, turns = math.prod(cut), turns_between(cut, joined)
    assert len(turns) == count
    sent, received = set(), set()
    for turn in turns:
        going = [_cell(sender, part, joined, cut) for sender, part in enumerate(turn.parts)]
        coming = [_cell(receiver, place, cut, joined) for receiver, place in enumerate(turn.places)]
        assert len(set(going)) == count
        assert sorted(going) == sorted(coming)
        sent.update(going)
        received.update(coming)
    cells = set(itertools.product(*[range(more * fewer) for more, fewer in zip(cut, joined, strict=True)]))
    assert sent == received == cells


def _cell(device: int, part: int, devices: tuple[int, ...], parts: tuple[int, ...]) -> tuple[int, ...]:
    """Which part of all that is, dimension by dimension: so many devices one after the other have so many parts each."""
    cell: list[int] = []
    for more, fewer in zip(reversed(devices), reversed(parts), strict=True):
        cell.append(device % more * fewer + part % fewer)
        device, part = device // more, part // fewer
    return tuple(reversed(cell))


def test_parts_are_in_line_where_no_dimension_is_cut_and_joined() -> None:
    assert [is_in_line(*case) for case in CASES] == [True, True, False, False, False, False]
