"""What devices have room for comes before what takes less time, with collectives left as they are too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardwright.cost.hardware import hardware
from shardwright.memo import Session
from shardwright.program import Plan
from tests.models.steps.all import plan

H100 = hardware("h100")


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan("mixture_of_experts", "tensor")


def test_what_fits_is_taken_before_what_takes_less_time(made: Plan) -> None:
    with Session(hardware=H100):
        alone, searched = made.partition(effort="fast"), made.partition(effort="default")
    assert searched.memory.allocated > alone.memory.allocated
    assert searched.searched is not None
    assert searched.searched.otherwise

    between = (searched.memory.allocated + alone.memory.allocated) // 2
    with Session(hardware=replace(H100, memory_bytes=between)):
        within = made.partition(effort="default")
    assert within.memory.allocated <= between
    assert any("less of what no device has room for" in note.message for note in within.notes)
    within.verify().require()

    with Session(hardware=replace(H100, memory_bytes=searched.memory.allocated)):
        assert made.partition(effort="default").memory == searched.memory


def test_where_nothing_fits_what_holds_least_is_taken(made: Plan) -> None:
    with Session(hardware=replace(H100, memory_bytes=1)):
        alone, searched = made.partition(effort="fast"), made.partition(effort="default")
    assert searched.memory.allocated <= alone.memory.allocated
