"""What of a collective goes over the network: against devices counted one by one, and what each node must receive."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest

from shardwright.axes import AxisRef
from shardwright.cost.hardware import Links, hardware
from shardwright.cost.nodes import Spread, is_in_order, is_within_nodes, spread_of, spread_of_devices
from shardwright.cost.price import Cost, price, step_cost, talking_axes
from shardwright.mesh import Mesh
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter, Step

CLUSTER = hardware("h100")
MESHES = [Mesh(a=16), Mesh(a=4, b=8), Mesh(a=2, b=4, c=8), Mesh(a=8, b=4), Mesh(a=3, b=16), Mesh(a=6, b=4)]


def groups_along(mesh: Mesh, axes: tuple[AxisRef, ...]) -> list[list[int]]:
    """Devices that differ along axes alone, one by one."""
    digits = [mesh.digit(axis) for axis in axes]
    by_rest: dict[int, list[int]] = {}
    for position in range(mesh.size):
        rest = position - sum(position // stride % size * stride for stride, size in digits)
        by_rest.setdefault(rest, []).append(mesh.device_id(position))
    return list(by_rest.values())


@pytest.mark.parametrize("mesh", [*MESHES, Mesh([("a", 4), ("b", 4)], device_ids=[*range(0, 16, 2), *range(1, 16, 2)])])
@pytest.mark.parametrize("near", [2, 4, 8])
def test_where_devices_stand_is_as_counted_one_by_one(mesh: Mesh, near: int) -> None:
    axes = [mesh.axis(name) for name in mesh.sizes]
    for some in itertools.chain(*[itertools.combinations(axes, many) for many in range(len(axes) + 1)]):
        spread, groups = spread_of(some, mesh, near), groups_along(mesh, some)
        counted = spread_of_devices(groups[0], near)
        if is_in_order(mesh, near) or mesh.device_ids is not None or len(some) == 1:
            assert spread == counted, some
        else:
            assert spread.nodes >= counted.nodes, some
        if len({spread_of_devices(group, near) for group in groups}) == 1:  # else a group crosses where others do not
            assert (spread.nodes == 1) == is_within_nodes(some, mesh, near), some
        if is_in_order(mesh, near) and mesh.size > near:
            assert spread.nodes == math.prod([spread_of((axis,), mesh, near).nodes for axis in some]), some


def test_parts_of_an_axis_stand_where_they_do() -> None:
    mesh = Mesh(data=64)
    across, within = AxisRef("data", 1, 8), AxisRef("data", 8, 8)
    assert spread_of((mesh.axis("data"),), mesh, 8) == Spread(8, 8)
    assert (spread_of((across,), mesh, 8), spread_of((within,), mesh, 8)) == (Spread(8, 1), Spread(1, 8))
    assert spread_of((mesh.axis("data"),), mesh, None) == Spread(1, 64)


@pytest.mark.parametrize(("nodes", "together"), [(2, 1), (2, 8), (8, 8), (4, 2)])
def test_what_goes_over_the_network_is_what_nodes_must_receive(nodes: int, together: int) -> None:
    """Of `V` gathered bytes a node of the group has a part of `nodes`, and its devices get the rest in equal parts."""
    count, size = nodes * together, 3840
    mesh = Mesh(data=nodes, other=8 // together, model=together)
    axes = (mesh.axis("data"), mesh.axis("model"))
    whole, split = TensorSharding.of(mesh, [[]]), TensorSharding.of(mesh, [axes])
    partial = TensorSharding.of(mesh, [[]], partial=axes)
    received = size * (nodes - 1) / nodes / together

    def far(step: Step, before: TensorSharding, held: float) -> float:
        cost = step_cost(step, before, held, links=Links(8))
        assert cost._replace(bytes_between_nodes=0.0) == step_cost(step, before, held)
        return cost.bytes_between_nodes

    assert far(AllGather((axes,)), split, size / count) == pytest.approx(received)
    assert far(ReduceScatter((axes,), "sum"), partial, size) == pytest.approx(received)
    assert far(AllReduce(axes, "sum"), partial, size) == pytest.approx(2 * received)
    two = TensorSharding.of(mesh, [axes, []])
    assert far(AllToAll(((axes, 0, 1),)), two, size) == pytest.approx(size * (nodes - 1) / nodes)
    assert far(AllGather(((mesh.axis("model"),),)), TensorSharding.of(mesh, [["model"]]), size) == 0.0
    assert far(CollectivePermute(whole), whole, size) == 0.0


def test_a_permute_goes_over_the_network_where_what_moves_does() -> None:
    mesh = Mesh(a=2, b=2, c=4)
    step = CollectivePermute(TensorSharding.of(mesh, [["a"], ["c"], ["b"]]))
    near = TensorSharding.of(mesh, [["a"], ["b"], ["c"]])
    assert step_cost(step, near, 100, links=Links(8)).bytes_between_nodes == 0.0
    assert step_cost(step, near, 100, links=Links(4)).bytes_between_nodes == 100.0


def test_a_byte_to_another_node_takes_the_time_of_the_network() -> None:
    assert price(Cost(9e9, bytes_between_nodes=9e9), CLUSTER) == pytest.approx(9e9 / 5e10)
    assert price(Cost(9e9, bytes_between_nodes=1e9), CLUSTER) == pytest.approx(8e9 / 4.5e11 + 1e9 / 5e10)
    unknown = replace(CLUSTER, network_bytes_per_second=None)
    assert unknown.devices_near is None
    assert price(Cost(9e9, bytes_between_nodes=9e9), unknown) == pytest.approx(9e9 / 4.5e11)


def test_costs_are_added_up() -> None:
    rng = random.Random(0)
    one, other = (Cost(*[rng.randrange(9) for _ in Cost._fields]) for _ in range(2))
    assert tuple(one + other) == tuple([a + b for a, b in zip(one, other, strict=True)])


def test_a_part_that_moves_out_and_in_is_counted_once() -> None:
    """Of an axis that one dimension loses as a whole, and others get in parts."""
    mesh = Mesh([("a", 4), ("b", 16)], device_ids=[*range(0, 64, 2), *range(1, 64, 2)])
    major, minor = AxisRef("b", 1, 4), AxisRef("b", 4, 4)
    before = TensorSharding.of(mesh, [["b"], [], []])
    after = TensorSharding.of(mesh, [[], [major], [minor]])
    axes = talking_axes(CollectivePermute(after), before)
    assert math.prod([axis.size for axis in axes]) == 16
    assert step_cost(CollectivePermute(after), before, 100, links=Links(8)).bytes_between_nodes == 100.0
