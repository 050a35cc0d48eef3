"""Amounts of what is done, and what they are worth on a hardware."""

from __future__ import annotations

import pytest

from shardwright.cost.hardware import BYTES, TPU_V5P, Hardware, current_hardware
from shardwright.cost.price import Cost, price, step_cost, work_cost
from shardwright.errors import ShardingError
from shardwright.memo import Session
from shardwright.mesh import Mesh
from shardwright.routes import Route
from shardwright.sharding import TensorSharding
from shardwright.steps import AllGather, AllSlice, CollectivePermute, Send, ShardedToUnreduced, ToUnreduced

MESH = Mesh(x=2, y=4, one=1)
X, Y, ONE = (MESH.axis(name) for name in MESH.sizes)


def test_the_price_is_the_time_of_all_one_after_the_other() -> None:
    hardware = Hardware("a box", bytes_per_second=100.0, start_seconds=3.0, multiply_adds_per_second=10.0)
    both = Cost(bytes_sent=150, starts=1) + Cost(bytes_sent=50, starts=1, multiply_adds=20)
    assert price(both, hardware) == 2 + 6 + 2


def test_by_bytes_fewer_collectives_win_at_equal_bytes_only_and_work_is_free() -> None:
    prices = [price(Cost(sent, starts), BYTES) for sent, starts in ((10, 1), (10, 2), (11, 1))]
    assert prices == sorted(prices)
    assert price(Cost(multiply_adds=1e30), BYTES) == 0


def test_a_start_is_worth_many_bytes_on_a_machine_and_a_multiply_add_less_than_one() -> None:
    assert price(Cost(starts=1), TPU_V5P) == pytest.approx(price(Cost(bytes_sent=9e4), TPU_V5P))
    assert price(Cost(multiply_adds=2000), TPU_V5P) < price(Cost(bytes_sent=1), TPU_V5P)


def test_work_is_divided_among_the_devices_that_share_it() -> None:
    assert work_cost(8 * 16 * 4, ((X,), (Y,), ())) == Cost(multiply_adds=8 * 16 * 4 / 8)


def test_nothing_is_started_where_nothing_is_sent() -> None:
    before = TensorSharding.of(MESH, [["one"], []])
    same_place = TensorSharding.of(MESH, [[], ["one"]])
    for step in (
        AllSlice(((X,), ())),
        AllGather(((ONE,), ())),
        CollectivePermute(same_place),
        ToUnreduced((Y,)),
        ShardedToUnreduced(((ONE,), ())),
    ):
        assert step_cost(step, before, 64) == Cost()


def test_what_goes_both_ways_along_the_links_is_started_once_and_all_of_it_sent() -> None:
    before = TensorSharding.of(MESH, [["y"], []])
    up, down = Route.along(1, -1, 4), Route.along(1, 1, 4)
    assert step_cost(Send((Y,), (up,)), before, 64) == Cost(bytes_sent=64, starts=1)
    assert step_cost(Send((Y,), (down,), is_opposite=True), before, 64) == Cost(bytes_sent=64)


def test_a_session_says_for_which_hardware_prices_are() -> None:
    with Session():
        assert current_hardware() is TPU_V5P
    with Session(hardware=BYTES), pytest.raises(ShardingError, match="no hardware"), Session(hardware="a toaster"):
        current_hardware()
