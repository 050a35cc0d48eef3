"""No plan costs less than the bound says, and the plain collectives cost that."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from shardwright.axes import axes_size
from shardwright.cost.hardware import BYTES, TPU_V5P, Hardware
from shardwright.mesh import Mesh
from shardwright.reshard.bound import least_cost, least_of_sums
from shardwright.reshard.plan import plan
from shardwright.sharding import TensorSharding
from shardwright.steps import local_bytes
from tests.reshard.strategies import reshards

MESH = Mesh(x=4, y=2)


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@pytest.mark.parametrize("hardware", [BYTES, TPU_V5P], ids=lambda hardware: hardware.name)
@given(reshard=reshards())
def test_no_plan_costs_less(
    reshard: tuple[tuple[int, ...], TensorSharding, TensorSharding], hardware: Hardware
) -> None:
    shape, source, target = reshard
    least, cost = least_cost(shape, 1 << 20, source, target), plan(shape, 1 << 20, source, target, hardware).cost
    assert least.bytes_sent <= cost.bytes_sent * (1 + 1e-12)
    assert least.starts <= cost.starts


@pytest.mark.parametrize(
    ("source", "partial", "target"),
    [
        ("xy", "", "x"),  # all_gather
        ("xy", "", ""),
        ("", "xy", ""),  # all_reduce
        ("", "xy", "xy"),  # reduce_scatter
        ("", "", "xy"),  # all_slice
    ],
)
def test_plain_collectives_cost_what_the_bound_says(source: str, partial: str, target: str) -> None:
    before, after = TensorSharding.of(MESH, [source], partial=partial), TensorSharding.of(MESH, [target])
    assert least_cost((16,), 4, before, after) == plan((16,), 4, before, after, BYTES).cost


def test_what_stays_partial_is_counted_by_its_contributions() -> None:
    before = TensorSharding.of(MESH, [[]], partial=["x", "y"])
    after = TensorSharding.of(MESH, [[]], partial=["y"])
    assert least_cost((16,), 4, before, after) == plan((16,), 4, before, after, BYTES).cost


@pytest.mark.parametrize("partial", ["x", "y", "xy"])
def test_many_targets_are_bounded_as_each_is(partial: str) -> None:
    source = TensorSharding.of(MESH, [[axis for axis in "xy" if axis not in partial], []], partial=list(partial))
    targets = [TensorSharding.of(MESH, [list(one), list(other)]) for one, other in _SPLITS]
    needed = np.array([float(local_bytes((16, 16), 4, target)) for target in targets])
    held, contributions = np.array([float(local_bytes((16, 16), 4, source))]), axes_size(source.partial_axes)
    sent, starts = least_of_sums(held, needed, contributions, 4.0 * 16 * 16, MESH.size)
    costs = [least_cost((16, 16), 4, source, target) for target in targets]
    assert sent.tolist() == [cost.bytes_sent for cost in costs]
    assert starts.tolist() == [cost.starts for cost in costs]


def test_many_targets_that_stay_partial_are_bounded_as_each_is() -> None:
    source = TensorSharding.of(MESH, [[], []], partial=["x", "y"])
    targets = [TensorSharding.of(MESH, [list(split), []], partial=["y"]) for split in ("", "x")]
    held, needed = (np.array([float(local_bytes((16, 16), 4, one)) for one in some]) for some in ([source], targets))
    contributions, staying = axes_size(source.partial_axes), axes_size(targets[0].partial_axes)
    sums = contributions // staying, 4.0 * 16 * 16 * staying, MESH.size
    costs = [least_cost((16, 16), 4, source, target) for target in targets]
    assert list(zip(*least_of_sums(held, needed, *sums), strict=True)) == [
        (cost.bytes_sent, cost.starts) for cost in costs
    ]


_SPLITS = [("", ""), ("x", ""), ("", "y"), ("y", "x"), ("xy", "")]
