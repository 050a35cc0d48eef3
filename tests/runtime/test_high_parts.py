"""High halves of products of integers, where a per-device program becomes a part of what JAX compiles."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_they_are_those_of_products_of_integers_of_python(name: str) -> None:
    info, rng = np.iinfo(name), np.random.default_rng(0)
    some = [info.min, info.max, info.max // 2, 0, 1, *([-1] if info.min else [2])]
    drawn = rng.integers(info.min, info.max, 10, name, endpoint=True).tolist()
    numbers = [*some, *drawn]
    left, right = (grid.ravel() for grid in np.meshgrid(np.array(numbers, name), np.array(numbers, name)))
    with jax.enable_x64(True):
        plan = sw.from_jax(lax.mulhi, left, right).shard(sw.Mesh(x=8), args={0: "x"})
        high = np.asarray(plan.partition().compile(trial=False)(left, right))
    expected = [int(a) * int(b) >> info.bits for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    assert high.dtype == np.dtype(name)
    assert high.tolist() == expected
