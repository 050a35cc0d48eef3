"""What goes over the links of a torus: against messages counted link by link, cuts, and closed formulas."""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwright.axes import AxisRef
from shardwright.cost.hardware import Links, hardware
from shardwright.cost.price import Cost, price, step_cost
from shardwright.cost.torus import Torus, most_links, pairs_over, paths_of, paths_of_devices, torus_of
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter, Step
from tests.cost.test_nodes import groups_along

CUBES = Links(None, 3, 4)
TORI = [
    Torus((4, 4, 4), True),
    Torus((2, 2, 2), False),
    Torus((8, 8), True),
    Torus((2, 4), False),
    Torus((16,), True),
    Torus((5, 6), True),
]


def places(device: int, torus: Torus) -> tuple[int, ...]:
    found: list[int] = []
    for length in reversed(torus.lengths):
        device, place = divmod(device, length)
        found.append(place)
    return tuple(reversed(found))


def ways(start: int, end: int, length: int, is_ring: bool) -> list[list[tuple[int, int]]]:
    """The shortest ways along a line, as the links that each goes over: from where, and to which side."""
    ahead = (end - start) % length if is_ring else end - start
    if not ahead:
        return [[]]
    behind = length - ahead if is_ring else -ahead
    over: list[list[tuple[int, int]]] = []
    if ahead > 0 and (not is_ring or ahead <= behind):
        over.append([((start + hop) % length, 1) for hop in range(ahead)])
    if behind > 0 and (not is_ring or behind <= ahead):
        over.append([((start - hop) % length, -1) for hop in range(behind)])
    return over


def busiest(messages: Iterator[tuple[int, int, float]], torus: Torus) -> float:
    """What goes over the busiest link where each message goes along one dimension after the other."""
    load: dict[object, float] = defaultdict(float)
    for source, target, size in messages:
        at, end = list(places(source, torus)), places(target, torus)
        for dim, length in enumerate(torus.lengths):
            over = ways(at[dim], end[dim], length, torus.closes and length > 2)
            for way in over:
                for place, side in way:
                    link = (dim, side, *at[:dim], place, *at[dim + 1 :])
                    load[link] += size / len(over)
            at[dim] = end[dim]
    return max(load.values(), default=0.0)


def meshes_on(torus: Torus) -> list[Mesh]:
    count = math.prod(torus.lengths)
    found = [Mesh(a=count), Mesh([(f"t{dim}", length) for dim, length in enumerate(torus.lengths)])]
    found += [Mesh(a=part, b=count // part) for part in (2, 4) if count % 8 == 0 and part < count]
    return found


@pytest.mark.parametrize("torus", TORI, ids=str)
def test_an_exchange_goes_over_the_busiest_link_as_counted_message_by_message(torus: Torus) -> None:
    for mesh in meshes_on(torus):
        axes = [mesh.axis(name) for name in mesh.sizes]
        for some in itertools.chain(*[itertools.combinations(axes, many) for many in range(1, len(axes) + 1)]):
            groups = groups_along(mesh, some)
            size = len(groups[0])
            each = [(a, b, 1 / size) for group in groups for a in group for b in group if a != b]
            said = paths_of(some, mesh, torus).of_exchange * (size - 1) / size
            assert said == pytest.approx(busiest(iter(each), torus)), (mesh, some)
            assert paths_of_devices(groups[0], torus) == pytest.approx(paths_of(some, mesh, torus))


@pytest.mark.parametrize("torus", TORI, ids=str)
def test_no_gather_takes_less_than_what_cuts_let_through(torus: Torus) -> None:
    """Devices in one half, or at one place, of a dimension receive what they lack over the links that lead there."""
    for mesh in meshes_on(torus):
        for axis in [mesh.axis(name) for name in mesh.sizes]:
            groups = groups_along(mesh, (axis,))
            size, lacks = len(groups[0]), defaultdict[tuple[int, int], int](int)
            for group in groups:
                where = [places(device, torus) for device in group]
                for dim, length in enumerate(torus.lengths):
                    for place in range(length):
                        inside = sum(at[dim] == place for at in where)
                        if inside:
                            lacks[dim, place] += size - inside
            said = paths_of((axis,), mesh, torus).of_gather * (size - 1)
            for (dim, place), lacking in lacks.items():
                length = torus.lengths[dim]
                sides = 2 if torus.closes and length > 2 else (place > 0) + (place < length - 1)
                through = sides * math.prod(torus.lengths) // length
                assert said >= lacking / through * (1 - 1e-9), (mesh, axis, dim)


def test_permutes_go_as_counted_message_by_message() -> None:
    rng = random.Random(0)
    for torus in (Torus((4, 4), True), Torus((8,), True), Torus((2, 2, 2), False)):
        count = math.prod(torus.lengths)
        for shift in range(1, count):
            pairs = [(device, (device + shift) % count) for device in range(count)]
            counted = busiest(iter([(*pair, 1.0) for pair in pairs]), torus)
            assert 1.0 <= pairs_over(pairs, torus) <= max(1.0, counted) * (1 + 1e-9)
        order = rng.sample(range(count), count)
        assert pairs_over(list(enumerate(order)), torus) <= busiest(iter([(*p, 1.0) for p in enumerate(order)]), torus)
    ring = Torus((8,), True)
    assert pairs_over([(device, (device + 1) % 8) for device in range(8)], ring) == 1.0
    assert pairs_over([(device, (device + 4) % 8) for device in range(8)], ring) == 2.0


def test_formulas_of_gathers_and_exchanges() -> None:
    """`V` gathered bytes by `W` a link: `V/2W` of a large ring, `V/4W` of two; an exchange of `V/n` each a quarter."""
    v5p = replace(hardware("tpu_v5p"), torus_dimensions=3, torus_ring=4)
    mesh, size, speed, start = Mesh(x=16, y=16, z=16), 2**32, v5p.bytes_per_second, v5p.start_seconds

    def seconds(step: Step, before: TensorSharding, held: float) -> float:
        return price(step_cost(step, before, held, links=v5p.links), v5p) - start

    x, y, z = (mesh.axis(name) for name in "xyz")
    one, two = TensorSharding.of(mesh, [["x"], []]), TensorSharding.of(mesh, [["x", "y"], []])
    assert seconds(AllGather(((x,), ())), one, size / 16) == pytest.approx(size * 15 / 16 / (2 * speed))
    assert seconds(AllGather(((x, y), ())), two, size / 256) == pytest.approx(size * 255 / 256 / (4 * speed))
    everywhere = TensorSharding.of(mesh, [["x", "y", "z"]])
    assert seconds(AllGather(((x, y, z),)), everywhere, size / 4096) == pytest.approx(size * 4095 / 4096 / (6 * speed))
    assert seconds(AllToAll((((x,), 0, 1),)), one, size / 16) == pytest.approx(size / (8 * speed))
    summed = TensorSharding.of(mesh, [[], []], partial=["x", "y"])
    assert seconds(AllReduce((x, y), "sum"), summed, size) == pytest.approx(2 * size * 255 / 256 / (4 * speed))


def test_several_dimensions_are_gathered_one_after_the_other() -> None:
    mesh = Mesh(x=4, y=16)
    before = TensorSharding.of(mesh, [["y"], ["x"]])
    step = AllGather(((mesh.axis("y"),), (mesh.axis("x"),)))
    cost = step_cost(step, before, 100, links=CUBES)
    assert cost.bytes_sent == 6300
    assert cost.bytes_sent - cost.bytes_beside == pytest.approx(300 / 2 + 6000 / 4)  # along x first, which is far apart
    scattered = ReduceScatter(step.axes, "sum")
    partial = TensorSharding.of(mesh, [[], []], partial=["x", "y"])
    assert step_cost(scattered, partial, 6400, links=CUBES).bytes_beside == pytest.approx(cost.bytes_beside)


def test_a_part_of_a_ring_is_none_and_others_between_share_its_links() -> None:
    mesh, torus = Mesh(x=16), Torus((16,), True)
    within, across = AxisRef("x", 4, 4), AxisRef("x", 1, 4)
    assert paths_of((mesh.axis("x"),), mesh, torus).of_gather == 0.5
    assert paths_of((within,), mesh, torus).of_gather == 1.0
    assert paths_of((across,), mesh, torus).of_gather == 2.0  # four times as many, half of them either way
    turned = Mesh([("x", 4), ("y", 4)], device_ids=[4 * (i % 4) + i // 4 for i in range(16)])
    assert paths_of((turned.axis("x"),), turned, torus) == paths_of((within,), mesh, torus)


@given(st.data())
def test_nobody_receives_over_more_links_than_there_are(data: st.DataObject) -> None:
    """Of any mesh, however a torus cuts its axes, and of any parts of these."""
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    mesh = Mesh([(f"a{number}", size) for number, size in enumerate(sizes)])
    torus = torus_of(mesh.size, data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 1, 2, 4])))
    assert math.prod(torus.lengths) == mesh.size
    whole = [mesh.axis(name) for name in data.draw(st.lists(st.sampled_from(list(mesh.sizes)), unique=True))]
    axes = tuple(AxisRef(axis.name, axis.pre, axis.size // 2 if axis.size % 2 == 0 else axis.size) for axis in whole)
    for some in (tuple(whole), axes):
        paths = paths_of(some, mesh, torus)
        assert paths.of_gather * most_links(torus) >= 1 - 1e-9
        assert paths.of_permute >= 1
        assert paths.of_exchange > 0


def test_tori_are_as_nearly_cubes_as_they_can_be() -> None:
    pod = {(64, 3): (4, 4, 4), (8960, 3): (16, 20, 28), (256, 2): (16, 16), (32, 2): (4, 8), (7, 3): (1, 1, 7)}
    assert {key: torus_of(*key, 4).lengths for key in pod} == pod
    assert torus_of(8960, 3, 4).closes
    assert not torus_of(32, 3, 4).closes
    assert not torus_of(64, 3, None).closes
    assert torus_of(5, 10**9, 4).lengths[-1] == 5


def test_pods_are_tori_of_their_own() -> None:
    """What goes to another pod goes over the network, the rest over links of its own."""
    links = Links(64, 3, 4)
    mesh = Mesh(pods=2, chips=64)
    axes = (mesh.axis("pods"), mesh.axis("chips"))
    cost = step_cost(AllGather((axes,)), TensorSharding.of(mesh, [axes]), 1, links=links)
    assert cost.bytes_between_nodes == pytest.approx(1.0)
    assert cost.bytes_sent - cost.bytes_between_nodes - cost.bytes_beside == pytest.approx(126 / 6)
    permuted = CollectivePermute(TensorSharding.of(mesh, [[], ["pods"]]))
    far = step_cost(permuted, TensorSharding.of(mesh, [["pods"], []]), 10, links=links)
    assert (far.bytes_between_nodes, far.bytes_beside) == (10.0, 0.0)


def test_bytes_beside_others_take_no_time() -> None:
    v5p = hardware("tpu_v5p")
    assert price(Cost(9e10, bytes_beside=4.5e10), v5p) == pytest.approx(0.5)
    assert price(Cost(9e10, bytes_beside=-9e10), v5p) == pytest.approx(2.0)
