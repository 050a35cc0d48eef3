"""Which rows of a split dimension come from where: against each device's window, row by row."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

from shardwright.partition.localize.transfers import Transfer, collectives, opposites, tiles, transfers
from shardwright.partition.localize.turns import sent_by_turns
from shardwright.partition.localize.windows import Window
from shardwright.routes import Line, Route, greatest_residue, least_residue

Rows = dict[tuple[int, int], set[int]]
"""For a device and a shard, rows of the shard."""


def needed(window: Window) -> Rows:
    """The rows that devices need."""
    rows: Rows = defaultdict(set)
    for device in range(window.shards):
        begin = window.base + window.pace * device
        for row in range(max(begin, 0), min(begin + window.size, window.shards * window.rows)):
            rows[device, row // window.rows].add(row % window.rows)
    return rows


def begin(window: Window, transfer: Transfer, device: int, shard: int) -> int:
    """The first row of a shard that a transfer takes of it for a device."""
    if transfer.start is not None:
        return transfer.start
    first = window.base + window.pace * device - window.rows * shard
    return min(max(first, 0), window.rows - transfer.rows)


def random_window(rng: random.Random) -> Window:
    shards, rows = rng.choice([2, 3, 4, 5, 6, 8, 12]), rng.randint(1, 9)
    pace = rng.choice([rows, 2 * rows, 3 * rows, -rows, max(1, rows // 2), rng.randint(1, 20), rng.randint(1, 20)])
    size = rng.choice([abs(pace), rng.randint(1, 3 * rows + 1)])
    return Window(shards, rows, rng.randint(-3 * rows, (shards + 1) * rows), pace, size)


def one_to_one(pairs: Iterable[tuple[int, int]]) -> bool:
    senders, receivers = zip(*pairs, strict=True)
    return len(set(senders)) == len(senders) and len(set(receivers)) == len(receivers)


@pytest.mark.parametrize("seed", range(20))
def test_every_row_that_is_needed_comes_or_is_there(seed: int) -> None:
    rng = random.Random(seed)
    for window in (random_window(rng) for _ in range(100)):
        rows, come = needed(window), defaultdict[tuple[int, int], set[int]](set)
        for transfer in transfers((window,)):
            pairs = [(int(sender), int(receiver)) for sender, receiver in transfer.route.pairs()]
            assert one_to_one(pairs), window
            assert transfer.local == all(sender == receiver for sender, receiver in pairs), window
            for sender, receiver in pairs:
                assert 0 <= sender < window.shards
                first = begin(window, transfer, receiver, sender)
                assert 0 <= first <= window.rows - transfer.rows
                come[receiver, sender] |= set(range(first, first + transfer.rows))
        assert all(rows[pair] <= come[pair] for pair in list(rows)), window


@pytest.mark.parametrize("seed", range(5))
def test_no_more_is_sent_than_some_device_needs(seed: int) -> None:
    rng = random.Random(seed)
    for window in (random_window(rng) for _ in range(200)):
        rows = needed(window)
        for transfer in transfers((window,)):
            if not transfer.local and window.even:
                assert all(len(rows[receiver, sender]) == transfer.rows for sender, receiver in transfer.route.pairs())
            elif not transfer.local and window.pace > window.rows:
                moved = [len(rows[s, u]) for u, s in transfer.route.pairs() if u != s]
                assert max(moved) == transfer.rows, window


def test_a_collective_is_one_to_one() -> None:
    rng = random.Random(0)
    for _ in range(500):
        shards, rows, joined = rng.choice([2, 3, 4, 6, 8, 12]), rng.randint(1, 5), rng.randint(1, 4)
        size, turn = rows * joined, rng.randint(0, shards * rows)
        bases = [turn - number * shards * rows for number in range(joined)]
        windows = tuple(Window(shards, rows, base, size, size) for base in bases)
        groups = collectives(windows)
        for group in groups:
            pairs = [(int(u), int(s)) for transfer in group for u, s in transfer.route.pairs()]
            assert one_to_one(pairs)
        assert sorted(map(repr, (one for group in groups for one in group))) == sorted(
            repr(one) for one in transfers(windows) if not one.local
        )


def test_shards_of_several_tensors_share_their_collectives() -> None:
    """Each device of `shards` gets as many shards as tensors are joined, in as many collectives."""
    for shards, joined, rounds in ((4, 2, 2), (6, 3, 3), (3, 2, 2), (8, 4, 4), (4, 4, 3)):
        windows = tuple(Window(shards, 5, -number * shards * 5, joined * 5, joined * 5) for number in range(joined))
        assert len(collectives(windows)) == rounds  # of four each has one already


def test_a_ring_is_one_collective() -> None:
    for turn in (1, 5, 7, 13):
        windows = tuple(Window(4, 5, base, 5, 5) for base in (-turn, 20 - turn))
        groups = collectives(windows)
        assert len(groups) == (1 if turn <= 5 else 2)
        assert all(sum(len(one.route.pairs()) for one in group) == 4 for group in groups)


def test_the_rows_of_a_halo() -> None:
    window = Window(shards=8, rows=4, base=-1, pace=4, size=8)
    assert [(one.start, one.rows, one.place) for one in transfers((window,))] == [(3, 1, 0), (0, 4, 1), (0, 3, 5)]
    assert [one.local for one in transfers((window,))] == [False, True, False]


def test_tiles_fill_the_window() -> None:
    """Rows outside on every device are a tile that nothing fills."""
    window = Window(shards=2, rows=4, base=4, pace=4, size=12)
    assert [(tile.rows, len(tile.transfers)) for tile in tiles((window,)) or ()] == [(4, 1), (8, 0)]
    assert tiles((Window(2, 4, 0, 3, 3),)) is None


def test_nothing_grows_with_the_number_of_devices() -> None:
    small, large = (transfers((Window(shards, 1000, -5, 990, 1010),)) for shards in (64, 1 << 20))
    assert len(small) <= len(large) <= 4
    assert len(repr(large)) < len(repr(small)) + 300


def test_windows_out_of_step_are_sent_by_distance_where_that_is_less() -> None:
    """Of a slice [0:40] of 48 rows in 8 shards: five rows over one shard, one over two; by number five twice."""
    assert [rows for rows, _ in sent_by_turns(Window(8, 6, 0, 5, 5))] == [5, 1]
    assert [rows for rows, _ in sent_by_turns(Window(4, 6, -1, 8, 8))] == [5]


def test_windows_far_apart_are_sent_by_number() -> None:
    """The first half of shards in two rounds, however many there are."""
    for shards in (8, 64, 4096):
        assert [rows for rows, _ in sent_by_turns(Window(shards, 6, 0, 3, 3))] == [3, 3]


def test_residues() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        slope, offset, modulus, count = (rng.randint(*ends) for ends in ((-30, 30), (-30, 30), (1, 20), (1, 15)))
        values = [(slope * number + offset) % modulus for number in range(count)]
        assert least_residue(slope, offset, modulus, count) == min(values)
        assert greatest_residue(slope, offset, modulus, count) == max(values)
    assert least_residue(10**9 + 7, 5, 10**12 + 39, 1 << 60) == 0


@pytest.mark.parametrize("slope", [1, 2, 3, -1, -2])
def test_a_route_is_the_same_from_both_ends(slope: int) -> None:
    for shards in range(1, 9):
        for offset in range(-12, 13):
            route = Route.along(slope, offset, shards)
            expected = [(slope * s + offset, s) for s in range(shards) if 0 <= slope * s + offset < shards]
            assert [(int(u), int(s)) for u, s in route.pairs()] == expected


def test_lines_round_down() -> None:
    assert [Line(1, -3, 2).at(index) for index in range(5)] == [-2, -1, -1, 0, 0]


def ways(group: Iterable[Transfer]) -> set[bool]:
    """Whether shards go up the line of devices: of one permute, of all that it sends."""
    pairs = [pair for transfer in group for pair in transfer.route.pairs().tolist()]
    return {sender < receiver for sender, receiver in pairs if sender != receiver}


@pytest.mark.parametrize("seed", range(20))
def test_permutes_are_paired_that_go_opposite_ways(seed: int) -> None:
    rng = random.Random(seed)
    for windows in ((random_window(rng),) for _ in range(100)):
        alone = [group for group, paired in zip(collectives(windows), opposites(windows), strict=True) if not paired]
        paired = [group for group, paired in zip(collectives(windows), opposites(windows), strict=True) if paired]
        assert all(len(ways(group)) == 1 for group in paired), windows
        for way in (True, False):
            others = sum(ways(group) == {not way} for group in alone)
            assert sum(ways(group) == {way} for group in paired) <= others, windows


def test_the_rows_of_both_neighbours_come_at_once() -> None:
    both, one = Window(shards=8, rows=4, base=-1, pace=4, size=6), Window(shards=8, rows=4, base=-1, pace=4, size=5)
    assert opposites((both,)) == (False, True)
    assert opposites((one,)) == (False,)


def test_of_three_permutes_two_go_the_same_way() -> None:
    window = Window(shards=8, rows=2, base=-3, pace=2, size=6)
    assert [ways(group) for group in collectives((window,))] == [{True}, {True}, {False}]
    assert opposites((window,)) == (False, False, True)
