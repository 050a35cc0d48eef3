"""What nothing leaves partial is reduced to the layout in which it is read, wherever propagation has it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()


def twice(x: Any, w: Any) -> tuple[Any, Any]:
    """A maximum that two products read whole; propagation has it split, as the columns are."""
    largest = x.max(0)
    return jnp.tanh(largest[None] @ w), jnp.sin(largest[None]) @ w


def least_of_rows(x: Any, w: Any) -> tuple[Any, Any]:
    """The same of a minimum, which is turned round for one of them."""
    least = x.min(0)
    return jnp.tanh(least) @ w, jnp.sin(least)[::-1] @ w


@pytest.mark.parametrize("function", [twice, least_of_rows])
def test_the_first_choice_takes_what_was_thought(function: Any) -> None:
    args = jnp.asarray(np.random.RandomState(0).randn(16, 16), np.float32), jnp.ones((16, 8), np.float32)
    with sw.Session(hardware=sw.hardware("cpu-8")):
        plan = sw.from_jax(function, *args).shard(sw.Mesh(x=2, y=4), args={0: "x,y"})
        spmd = plan.partition(effort="default")
        step = spmd.compile(trial=False)
    searched = spmd.searched
    assert searched is not None
    assert searched.trials == 1
    assert searched.seconds == pytest.approx(searched.seconds_least, rel=1e-9)
    for found, expected in zip(step(*args), function(*args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
