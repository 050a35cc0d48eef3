"""Larger tensors than any op by itself has, where collectives in loops would take nearly all of the time else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

import shardwright as sw
from shardwright.cost.hardware import hardware
from shardwright.optimize.compared import demand_of
from shardwright.optimize.works import part_in_loops
from shardwright.partition import materialize
from shardwright.program import Plan, Spmd, explicit
from shardwright.report.summary import describe_search
from tests.models.nets.all import NETS
from tests.models.steps.all import plan

V5P = hardware("tpu_v5p")
LSTM = partial(plan, "lstm", "fsdp")


def _told(spmd: Spmd) -> list[str]:
    return [note.message for note in spmd.notes if "more is held of large tensors" in note.message]


def _net(name: str) -> Plan:
    made: Plan = NETS[name].plan(evenly=True)
    return made


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """What a device might hold of any tensor, of each search that is made."""
    found = list[float | None]()

    def recorded(*args: Any) -> Any:
        found.append(args[-1])
        return materialize(*args)

    monkeypatch.setattr(explicit, "materialize", recorded)
    return found


@pytest.mark.parametrize(
    ("make", "optimize"),
    [(LSTM, "off"), (LSTM, "all"), (partial(_net, "langevin_dynamics"), "all")],
    ids=["lstm-off", "lstm-all", "langevin-all"],
)
def test_what_loops_read_is_gathered_in_front_of_them_where_that_takes_hardly_any_of_the_time(
    make: Callable[[], Plan], optimize: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sw.Session(hardware=V5P):
        more = make().partition(effort="default", optimize=optimize)
        demand = demand_of(more.explicit)
        monkeypatch.setattr(explicit, "_MUCH", 1.0)
        less = make().partition(effort="default", optimize=optimize)
        before = demand_of(less.explicit)
    assert len(_told(more)) == 1
    assert not _told(less)
    assert demand.seconds < before.seconds / 7
    assert before.beside < demand.beside <= 3 * before.beside
    assert demand.sent <= before.sent
    assert demand.is_better(before)
    assert more.searched is not None
    assert more.searched.otherwise
    assert more.searched.most_held is None
    more.verify().require()


@pytest.mark.parametrize("name", ["ring_attention", "k_means", "greedy_generation"])
def test_what_would_hold_too_much_or_send_more_is_left(limits: list[float | None], name: str) -> None:
    """A ring of keys and values, points, and the words of a model, all of which would be whole on each device."""
    with sw.Session(hardware=V5P):
        made = _net(name).partition(effort="default")
    assert math.inf in limits
    assert not _told(made)


def test_what_devices_have_no_room_for_is_left() -> None:
    made = LSTM()
    with sw.Session(hardware=V5P):
        more = made.partition(effort="default")
    with sw.Session(hardware=replace(V5P, memory_bytes=more.memory.allocated // 2)):
        less = made.partition(effort="default")
    assert _told(more)
    assert not _told(less)
    assert less.memory.allocated < more.memory.allocated


def test_nothing_is_searched_again_without_loops_or_where_little_is_sent_in_them(
    limits: list[float | None],
) -> None:
    with sw.Session(hardware=V5P):
        without = plan("lamb", "fsdp").partition(effort="default")
        assert part_in_loops(without.explicit) == 0.0
        assert limits == [None]
        little = _net("flash_attention").partition(effort="default")
        assert 0.0 <= part_in_loops(little.explicit) <= 0.8
        assert limits == [None, None]
        much = _net("k_means").partition(effort="fast")
        assert 0.8 < part_in_loops(much.explicit) <= 1.0
    assert not any(map(_told, (without, little, much)))


def test_what_might_be_held_is_told_in_what_machines_read() -> None:
    with sw.Session(hardware=V5P):
        within = plan("lamb", "fsdp").partition(effort="default").searched
        more = LSTM().partition(effort="default").searched
    assert within is not None
    assert within.most_held is not None
    assert within.most_held > 0
    assert json.loads(json.dumps(describe_search(more), allow_nan=False))["search"]["most_held"] is None
