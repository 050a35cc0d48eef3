"""Functions of JAX's namespaces compute the same, however their arguments are sharded.

Some, drawn by `SHARDWRIGHT_SEED`, each time; all of them in long mode, twenty minutes on one core.
"""

from __future__ import annotations

import os
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices
from tests.models.jax_api import Call, calls, functions

eight_devices()

SEED = int(os.environ.get("SHARDWRIGHT_SEED", "0"))
DRAWN, GROUPS = 12, 16
MESH = sw.Mesh(x=2, y=4)
HOW = (("fast", "off"), ("fast", "off"), ("lean", "all"), ("default", "all"))
NAMES = list(functions())


def sharded(rng: random.Random, array: np.ndarray) -> str:
    """Mostly both axes, each on any dimension."""
    dims: list[list[str]] = [[] for _ in array.shape]
    for axis in rng.sample(("x", "y"), 2):
        if dims and rng.random() < 0.85:
            rng.choice(dims).append(axis)
    return ",".join("+".join(axes) or "-" for axes in dims)


def check(rng: random.Random, call: Call) -> None:
    args = {number: sharded(rng, one) for number, one in enumerate(call.arguments) if one.ndim}
    effort, optimize = rng.choice(HOW)
    how = f"{call.name} {args} {effort} {optimize}"
    plan = sw.from_jax(call.function, *call.arguments).shard(MESH, args=args)
    found = plan.partition(effort=effort, optimize=optimize).compile(trial=False)(*call.arguments)
    expected = jax.jit(call.function)(*call.arguments)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if not jnp.issubdtype(other.dtype, jax.dtypes.prng_key):
            assert_close(one, other, how)


def assert_close(found: Any, expected: Any, how: str) -> None:
    """As close as sums in another order are."""
    one, other = np.asarray(found), np.asarray(expected)
    assert (one.shape, one.dtype) == (other.shape, other.dtype), how
    one, other = one.astype(np.complex128), other.astype(np.complex128)
    largest = np.abs(np.where(np.isfinite(other), other, 0)).max(initial=1.0)
    np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4 * largest, equal_nan=True, err_msg=how)


def check_all(seed: int, names: list[str]) -> int:
    rng, known, checked = random.Random(seed), functions(), 0
    for name in names:
        for call in calls(name, known[name]):
            check(rng, call)
            checked += 1
    return checked


def test_some_functions_compute_the_same() -> None:
    assert check_all(SEED, random.Random(SEED).sample(NAMES, DRAWN))


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_all_functions_compute_the_same(group: int) -> None:
    assert check_all(SEED + group, NAMES[group::GROUPS]) > DRAWN
