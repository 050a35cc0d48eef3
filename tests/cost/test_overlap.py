"""Collectives beside what computes: who waits for what, and over which links they go."""

from __future__ import annotations

import itertools

import pytest

from shardwright.cost.nodes import is_within_nodes
from shardwright.cost.overlap import Queue, Timeline, Work, overlapped_seconds, queue_of
from shardwright.mesh import Mesh

COMPUTE, LINKS, NETWORK = Queue


def test_what_stands_between_a_collective_and_its_first_reader_hides_it() -> None:
    made, sent, other = Work(1, COMPUTE, (), (0,)), Work(5, LINKS, (0,), (1,)), Work(3, COMPUTE, (0,), (2,))
    last = Work(2, COMPUTE, (1, 2), (3,))
    assert overlapped_seconds([made, sent, other, last]) == 1 + 5 + 2
    assert overlapped_seconds([made, other, sent, last]) == 1 + 3 + 5 + 2


def test_collectives_over_one_kind_of_link_wait_for_one_another_and_others_do_not() -> None:
    assert overlapped_seconds([Work(5, LINKS), Work(4, LINKS)]) == 9
    assert overlapped_seconds([Work(5, LINKS), Work(4, NETWORK), Work(3, COMPUTE)]) == 5


def test_a_collective_of_what_another_one_gives_has_the_device_wait_for_that() -> None:
    works = [Work(5, LINKS, (), (0,)), Work(4, LINKS, (0,), (1,)), Work(3, COMPUTE)]
    assert overlapped_seconds(works) == 9
    assert overlapped_seconds([works[0], works[2], works[1]]) == 9
    assert overlapped_seconds([works[0], works[1]._replace(seconds=1), works[2]]) == 8


def test_nothing_takes_longer_than_all_in_a_row_nor_less_than_any_queue() -> None:
    works = [Work(3, COMPUTE, (), (0,)), Work(2, LINKS, (), (1,)), Work(4, NETWORK, (), (2,)), Work(1, COMPUTE)]
    for order in itertools.permutations(works):
        assert 4 <= overlapped_seconds(order) <= 10


def test_a_timeline_tells_when_values_are_there() -> None:
    timeline = Timeline()
    timeline.begin(Work(3, COMPUTE, (), (0,)))
    timeline.begin(Work(2, LINKS, (0,), (1,)))
    assert (timeline.now, timeline.wait((0, 1)), timeline.wait((7,)), timeline.end) == (3, 5, 0, 5)


@pytest.mark.parametrize("devices", [2, 3, 4, 6, 8, 24])
def test_what_is_within_a_node_is_what_enumerating_devices_says(devices: int) -> None:
    sizes = {"x": 2, "y": 3, "z": 4}
    mesh = Mesh(sizes)
    listed = Mesh(sizes, device_ids=tuple(range(24)))
    shuffled = Mesh(sizes, device_ids=tuple(reversed(range(24))))
    for names in itertools.chain.from_iterable(itertools.combinations(sizes, count) for count in range(4)):
        axes = tuple(mesh.axis(name) for name in names)
        for one in (mesh, listed, shuffled):
            nodes: dict[tuple[int, ...], set[int]] = {}
            for position in range(24):
                rest = tuple(at for name, at in one.coordinates(position).items() if name not in names)
                nodes.setdefault(rest, set()).add(one.device_id(position) // devices)
            assert is_within_nodes(axes, one, devices) == all(len(row) == 1 for row in nodes.values())


def test_where_no_node_is_known_all_goes_over_links() -> None:
    mesh = Mesh(x=2, y=8)
    axes = (mesh.axis("x"),)
    assert [queue_of(axes, mesh, devices) for devices in (None, 8, 16)] == [LINKS, NETWORK, LINKS]
