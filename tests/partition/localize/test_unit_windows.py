"""Convolutions of one-element windows whose result has its dimensions in another order: XLA:CPU gives others for them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.runtime.execute import execute_local, execute_unsharded
from tests.jaxlib_differences import INSTALLED

IMAGE, KERNEL = (2, 6, 6), (6, 1, 3)
WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)


def looped(image: Any, kernel: Any, turns: Any, pad: int) -> Any:
    """The convolution in a loop that is the same in each turn, with a sum over its rows."""
    rows = image.shape[0] + pad

    def turn(_: Any) -> Any:
        form = ("HNC", "IHO", "NHC")
        out = lax.conv_general_dilated(image, kernel, (1,), ((0, pad),), (1,), (1,), form)
        weights = (jnp.arange(3 * rows) * 7 % 5).reshape(3, rows).astype(jnp.float32)
        masked = jnp.where(jnp.arange(rows)[None, :, None] < 5, out, 0)
        return lax.dot_general(masked, weights, (((1,), (1,)), ((2,), (0,))))

    return lax.map(turn, turns)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 5, shape).astype(np.float32)


def expected(image: np.ndarray, kernel: np.ndarray, turns: int, rows: int) -> np.ndarray:
    weights = (np.arange(3 * rows) * 7 % 5).reshape(3, rows).astype(np.float32)
    weights[:, 5:] = 0
    once = np.einsum("hni,io,oh->on", image[:rows], kernel[:, 0], weights)
    return np.broadcast_to(once, (turns, *once.shape))


@pytest.mark.parametrize("rows", [2, 6, 7])
def test_split_rows_give_what_they_should(rows: int) -> None:
    image, kernel, turns = numbers((rows, 6, 6)), numbers(KERNEL), np.zeros(4, np.float32)
    pad = -1 if rows > 2 else 0
    program = sw.from_jax(jax.jit(looped, static_argnums=3, keep_unused=True), image, kernel, turns, pad)
    spmd = program.shard(sw.Mesh(x=4), args={"image": "x,-,-"}).partition()
    text = spmd.module("local")
    assert "->[0, b, f]" in text
    types = list(program.results.values())
    done = execute_local(text, spmd.mesh, spmd.in_shardings, spmd.out_shardings, [image, kernel, turns], types)
    np.testing.assert_array_equal(done.outputs[0], expected(image, kernel, 4, rows + pad))


@pytest.mark.skipif(INSTALLED[:2] != (0, 10), reason="what XLA:CPU does wrong was looked at in jaxlib 0.10")
def test_xla_itself_still_takes_them_for_products() -> None:
    image, kernel, turns = numbers(IMAGE), numbers(KERNEL), np.zeros(4, np.float32)
    text = jax.jit(looped, static_argnums=3).lower(image, kernel, turns, 0).as_text()
    (given,) = execute_unsharded(text, [image, kernel])
    assert not np.array_equal(given, expected(image, kernel, 4, 2))


def test_verify_holds_it_against_what_it_should_give_and_says_so() -> None:
    image, kernel, turns = numbers(IMAGE), numbers(KERNEL), np.zeros(4, np.float32)
    program = sw.from_jax(jax.jit(looped, static_argnums=3, keep_unused=True), image, kernel, turns, 0)
    verification = program.shard(sw.Mesh(x=2), args={"kernel": "-,-,x"}).partition().verify()
    assert verification.ok, verification
    assert any("one-element windows" in note for note in verification.notes)
    (given,) = execute_unsharded(program.unsharded(), [image, kernel, turns])
    np.testing.assert_array_equal(given, expected(image, kernel, 4, 2))
