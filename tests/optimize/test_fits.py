"""What devices have room for comes before what takes less time, with collectives left as they are too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw
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


def scanned(w: Any, x: Any) -> Any:
    def loss(w: Any) -> Any:
        @jax.checkpoint
        def layer(x: Any, w: Any) -> Any:
            return x + jnp.tanh(x @ w["up"]) @ w["down"], None

        return (jax.lax.scan(layer, x, w)[0] ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(w)
    return jax.tree.map(lambda w, g: w - 0.1 * g, w, gradient), value


@pytest.mark.parametrize(("room", "times"), [(20e6, 0.6), (13e6, 0.9)])
def test_where_neither_fits_or_one_does_at_length_less_is_held_of_each_tensor(room: float, times: float) -> None:
    """Stacks of weights are gathered in front of the loops as far as there is room, and else layer by layer; each op by
    itself takes 14.7 MB and 0.94 ms, and all together where there is room 24.2 MB and 0.44 ms.
    """
    up, down = (jax.ShapeDtypeStruct((16, *dims), jnp.float32) for dims in ((256, 1024), (1024, 256)))
    args: dict[str | int, Any] = {"w/up": ".,data,model", "w/down": ".,model,data", "x": "data"}
    x = jax.ShapeDtypeStruct((512, 256), jnp.float32)
    program = sw.from_jax(scanned, {"up": up, "down": down}, x, donate_argnums=0)
    made = program.shard(sw.Mesh(data=2, model=4), args)
    with Session(hardware=replace(H100, memory_bytes=room)):
        alone, within = made.partition(effort="fast"), made.partition(effort="default")
    assert within.memory.allocated <= room
    assert within.outcome.seconds < times * alone.outcome.seconds
    assert any("less is held of large tensors" in note.message for note in within.notes)
