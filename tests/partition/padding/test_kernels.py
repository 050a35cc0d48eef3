"""Kernels that are shared out along a dimension that does not divide: gradients of kernels in what they send."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw

ROW = 4 * 130 * 16 * 4
"""Bytes of a row of 4x130x130x16xf32."""
SUM = 3 * 3 * 16 * 16 * 4 * 2 * 3 // 4
"""What each of four devices sends for the sum of the gradient."""


def gradient(stride: int, mesh: sw.Mesh, spec: tuple[str | None, ...]) -> sw.Spmd:
    """The gradient of a kernel of 3x3 along 130x130, image and gradient of the result split alike."""

    def convolved(x: jax.Array, w: jax.Array) -> Any:
        return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def of_kernel(x: jax.Array, w: jax.Array, dy: jax.Array) -> Any:
        return jax.vjp(lambda w: convolved(x, w), w)[1](dy)[0]

    x, w = jax.ShapeDtypeStruct((4, 130, 130, 16), jnp.float32), jax.ShapeDtypeStruct((3, 3, 16, 16), jnp.float32)
    program = sw.from_jax(of_kernel, x, w, jax.eval_shape(convolved, x, w))
    return program.shard(mesh, args={"x": spec, "dy": spec}).partition()


def test_a_kernels_gradient_sends_the_rows_that_cross_and_its_sum() -> None:
    spmd = gradient(1, sw.Mesh(x=4), (None, "x", None, None))
    assert spmd.verify().ok
    assert spmd.traffic.total.executed_bytes == 2 * ROW + SUM
    assert not spmd.notes


@pytest.mark.parametrize("stride", [1, 2])
def test_nothing_is_gathered_along_two_dimensions(stride: int) -> None:
    spmd = gradient(stride, sw.Mesh(x=2, y=4), (None, "x", "y", None))
    assert spmd.verify().ok
    assert not [note for note in spmd.notes if "gathered" in note.message]
