"""What arguments can take is read off the program."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardwright.mesh import Mesh
from shardwright.program import from_jax
from shardwright.runtime.domains import domains

F = jax.ShapeDtypeStruct((8,), jnp.float32)
I = jax.ShapeDtypeStruct((8,), jnp.int32)  # noqa: E741


def _of(function: Any, *arguments: Any) -> list[tuple[bool, int | None]]:
    return [(domain.nonnegative, domain.below) for domain in domains(from_jax(function, *arguments).graph)]


def test_second_moments_are_not_negative_and_first_ones_are_free() -> None:
    def adam(p: Any, m: Any, v: Any, g: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return p - m / (jnp.sqrt(v / 0.1) + 1e-8), v

    assert [positive for positive, _ in _of(adam, F, F, F, F)] == [False, False, True, False]


def test_logarithms_loops_and_selections() -> None:
    def function(a: Any, b: Any, c: Any, d: Any) -> Any:
        e = jax.lax.fori_loop(0, 3, lambda _, x: 0.5 * x, a)
        return jnp.log(e), jax.lax.rsqrt(jnp.where(c > 0, b, 1.0)), jnp.sqrt(c**2 + 1), d

    assert [positive for positive, _ in _of(function, F, F, F, F)] == [True, True, False, False]


def test_indices_stay_within_what_they_index() -> None:
    table = jax.ShapeDtypeStruct((5, 3), jnp.float32)
    assert _of(lambda t, i: t[i], table, I)[1] == (False, 5)
    assert _of(lambda t, i: t.at[i].add(1.0), table, I)[1] == (False, 5)
    assert _of(lambda i: jax.nn.one_hot(i, 4), I)[0] == (False, 4)
    assert _of(lambda x, i: jnp.take_along_axis(x, i[:, None] % 3, 1), jax.ShapeDtypeStruct((8, 3), F.dtype), I)[1][
        1
    ] in (3, None)
    assert _of(lambda x, i: jax.lax.dynamic_slice(x, (i,), (3,)), F, jax.ShapeDtypeStruct((), jnp.int32))[1] == (
        False,
        6,
    )
    assert _of(lambda i: i * 2, I)[0] == (False, None)


def test_inputs_are_what_the_function_was_lowered_with() -> None:
    program = from_jax(lambda x, k, n: x[n] * k["w"], F, {"w": np.full(8, 3.0, np.float32)}, 2)
    spmd = program.shard(Mesh(a=2), {"x": "a"}).partition()
    x, w, n = spmd.inputs()
    assert w.tolist() == [3.0] * 8
    assert n == 2
    assert x.tolist() != spmd.inputs(seed=1)[0].tolist()
    assert spmd.inputs({"k/w": np.zeros(8, np.float32)})[1].tolist() == [0.0] * 8
    assert spmd.inputs({"1": np.zeros(8, np.float32)})[1].tolist() == [0.0] * 8


def test_static_arguments_are_no_inputs() -> None:
    program = from_jax(lambda n, x: x * n, 3, np.ones(8, np.float32), static_argnums=0)
    assert program.shard(Mesh(a=2), {"x": "a"}).partition().inputs()[0].tolist() == [1.0] * 8
