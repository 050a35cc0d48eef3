"""Programs, plans and per-device programs are values: nothing is assigned to them, and a pickle goes on as they do."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from shardwright.clock import Clock
from shardwright.program.program import EXAMPLE
from shardwright.stage import STAGES
from tests.frontends.devices import eight_devices

eight_devices()

SRC = Path(sw.__file__).parent.parent
MESH = sw.Mesh(data=2, model=4)
T = TypeVar("T")


def step(params: Any, batch: Any, key: Any, rate: Any) -> Any:
    def loss(params: Any) -> Any:
        noise = 0.01 * jax.random.normal(key, batch.shape)
        return (jax.nn.relu((batch + noise) @ params["w1"]) @ params["w2"]).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradient), value


def arguments() -> tuple[Any, ...]:
    draw = np.random.default_rng(0).normal
    params = {"w1": jnp.asarray(draw(size=(16, 32)), jnp.float32), "w2": jnp.asarray(draw(size=(32, 16)), jnp.float32)}
    return params, jnp.asarray(draw(size=(8, 16)), jnp.float32), jax.random.key(0), 0.1


def from_text() -> sw.Plan:
    return again(sw.load(EXAMPLE)).shard(MESH, args={0: "data,model", 1: "model,-"})


def from_function() -> sw.Plan:
    program = again(sw.from_jax(step, *arguments()))
    return program.shard(MESH, args={"params/w1": sw.P(None, "model"), "batch": sw.P("data")})


def again(value: T) -> T:
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


PLANS = {"text": from_text, "function": from_function}


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS)
def test_a_pickle_goes_on_as_its_value_does(make: Callable[[], sw.Plan]) -> None:
    plan = make()
    other = again(plan)
    assert other.module() == plan.module()
    assert other.arguments == plan.arguments
    assert other.in_shardings == plan.in_shardings
    assert other.clock.seconds == plan.clock.seconds
    assert other.explain("result0" if make is from_text else "result/1") is not None
    spmd, after = plan.partition(), again(other.partition())
    assert [after.module(stage) for stage in STAGES] == [spmd.module(stage) for stage in STAGES]
    assert after.notes == spmd.notes
    assert after.traffic == spmd.traffic
    assert after.memory == spmd.memory
    assert after.verify().ok


def test_a_pickle_is_called_as_the_function_is() -> None:
    compiled = again(from_function().partition()).compile()
    given = arguments()
    np.testing.assert_allclose(compiled(*given)[1], step(*given)[1], rtol=1e-5)


def test_a_program_of_one_device_is_a_value_too() -> None:
    program = sw.load(from_text().partition().module("local")).per_device()
    assert again(program).module() == program.module()
    assert again(program).traffic == program.traffic
    with pytest.raises(FrozenInstanceError):
        program.local = program.source.graph  # type: ignore[misc]


def test_what_was_donated_since_is_not_in_the_pickle() -> None:
    x = jnp.ones(8)
    program = sw.from_jax(lambda x: x + 1, x)
    x.delete()
    assert again(program).shard(sw.Mesh(x=2)).partition().verify().ok


def test_a_pickle_says_the_same_in_another_process() -> None:
    spmd = from_text().partition()
    code = (
        "import pickle, sys\nspmd = pickle.loads(sys.stdin.buffer.read())\n"
        f"sys.stdout.write(''.join(spmd.module(stage) for stage in {STAGES}))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, input=pickle.dumps(spmd), env={"PYTHONPATH": str(SRC)}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "".join(spmd.module(stage) for stage in STAGES)


def test_what_is_computed_is_kept_and_not_pickled() -> None:
    plan = from_text()
    size = len(pickle.dumps(plan))
    plan.explain("result0")
    assert plan._recording is plan._recording
    assert len(pickle.dumps(plan)) == size
    assert plan.partition().plan.explain("result0")


def test_nothing_is_assigned() -> None:
    plan = from_text()
    spmd = plan.partition()
    for value, name in ((plan.program, "source"), (plan, "graph"), (spmd, "local"), (spmd, "more")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, None)


def test_who_watches_a_clock_does_so_in_one_process() -> None:
    seen: list[str] = []
    clock = Clock(seen.append)
    with clock.stage("load"):
        pass
    other = again(clock)
    assert other.watch is None
    assert other.seconds == clock.seconds


def test_a_plan_and_its_program_know_their_own_stages() -> None:
    spmd = from_text().partition()
    assert list(spmd.plan.clock.seconds) == ["load", "propagate"]
    assert list(spmd.plan.program.clock.seconds) == ["load"]
