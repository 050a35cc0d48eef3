"""One number repeated, padded by the same: it is that number repeated."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

X = np.arange(64 * 16, dtype=np.float32).reshape(64, 16) / 100


def _smoothed(u: Any, f: Any) -> Any:
    p = jnp.pad(u, 1)
    return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + f) / 4


def _made(function: Any) -> sw.Spmd:
    """A function of `X`, whose rows and columns are split; it computes what it does whole."""
    spmd = sw.from_jax(function, X).shard(sw.Mesh(x=4, y=2), args={0: "x,y"}).partition(effort="fast")
    np.testing.assert_array_equal(np.asarray(spmd.compile()(X)), np.asarray(function(X)))
    return spmd


def _pads(function: Any) -> int:
    """How many pads are left of it."""
    return sum(op.name == "stablehlo.pad" for op in _made(function).explicit.walk())


def test_a_stencil_of_zeros_is_one_of_zeros() -> None:
    spmd = _made(lambda x: _smoothed(jnp.zeros_like(x), x))
    assert not any(op.name == "stablehlo.pad" for op in spmd.explicit.walk())
    assert not spmd.traffic.total.static


def test_pads_of_what_was_padded_so_are_left_out_as_well() -> None:
    assert _pads(lambda x: x + jnp.pad(jnp.pad(jnp.zeros((56, 12)), ((2, 2), (1, 1))), ((2, 2), (1, 1)))) == 0


def test_any_number_may_be_repeated() -> None:
    def function(x: Any) -> Any:
        number = x.max()
        return x + lax.pad(lax.broadcast(number, (56, 12)), number, [(4, 4, 0), (2, 2, 0)])

    assert _pads(function) == 0


@pytest.mark.parametrize(("number", "around"), [(1.0, 0.0), (0.0, 1.0), (-0.0, 0.0), (0.0, -0.0)])
def test_other_numbers_are_padded(number: float, around: float) -> None:
    """So is a negative zero by a positive one: `1 / x` tells them apart."""

    def function(x: Any) -> Any:
        padded = jnp.pad(jnp.full((62, 14), number, jnp.float32), 1, constant_values=jnp.float32(around))
        return jnp.where(x > 5, x, 1 / padded)

    assert _pads(function) == 1


def test_what_a_loop_pads_first_is_filled_in_each_turn() -> None:
    def function(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, u: _smoothed(jnp.zeros_like(x), x) + 0.5 * u, x)

    assert _pads(function) == 0


def test_what_is_smoothed_behind_it_is_exchanged() -> None:
    assert _pads(lambda x: _smoothed(_smoothed(jnp.zeros_like(x), x), x)) > 0
