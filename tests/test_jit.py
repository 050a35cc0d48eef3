"""`sw.jit`: functions that are sharded and compiled when they are called."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

RNG = np.random.default_rng(0)
PARAMS = {"w1": RNG.normal(size=(8, 16)).astype(np.float32), "w2": RNG.normal(size=(16, 8)).astype(np.float32)}
X = RNG.normal(size=(4, 8)).astype(np.float32)
MESH = {"data": 2, "model": 4}
ARGS = ({"w1": P(None, "model")}, P("data"))


def train(params: Any, x: Any, rate: Any = 0.1, *, power: int = 2) -> Any:
    def loss(params: Any) -> Any:
        return ((jnp.tanh(x @ params["w1"]) @ params["w2"] - x) ** power).mean()

    value, gradient = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - rate * g, params, gradient), value


def close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)


def test_a_loop_of_steps() -> None:
    step = sw.jit(train, MESH, ARGS, donate_argnums=0)
    params, expected = jax.tree.map(jnp.array, PARAMS), PARAMS
    before = params
    for _ in range(4):
        before = params
        params, loss = step(params, X)
        expected, other = train(expected, X)
        close((params, loss), (expected, other))
    assert before["w1"].is_deleted()
    assert params["w2"].sharding.spec == P("model", None)
    with pytest.raises(RuntimeError, match="has been deleted: it was donated"):
        step(before, X)


def test_each_kind_of_arguments_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []
    own = sw.from_jax

    def counted(*args: Any, **kwargs: Any) -> sw.Program:
        lowered.append(args)
        return own(*args, **kwargs)

    monkeypatch.setattr("shardwright.program.jitted.from_jax", counted)
    step = sw.jit(lambda x, scale: x * scale, {"data": 2}, ("data", None))
    for scale in (2.0, 3.0, np.float32(2), np.float32(4), 2, 5):
        for rows in (4, 8):
            result = step(jnp.ones((rows, 3), jnp.bfloat16), scale)
            assert result.dtype == (jnp.ones(1, jnp.bfloat16) * scale).dtype
            assert float(result[0, 0]) == scale
    assert len(lowered) == 6  # a number of Python gives way to the array's type; one of numpy does not


def test_static_arguments() -> None:
    step = sw.jit(train, MESH, ARGS, static_argnames="power")
    for power in (2, 4, 2):
        close(step(PARAMS, X, power=power), train(PARAMS, X, power=power))
    numbered = sw.jit(lambda n, x: x * n, {"data": 2}, ("data",), static_argnums=0)
    assert [round(float(numbered(n, X)[0, 0] / X[0, 0])) for n in (2, 3, 2)] == [2, 3, 2]
    with pytest.raises(sw.ShardingError, match="cannot be told from others"):
        numbered([2], X)


@pytest.mark.parametrize(
    "static", [{"static_argnums": 1}, {"static_argnames": "n"}, {"static_argnums": (-1,), "static_argnames": ("n",)}]
)
def test_static_arguments_are_given_either_way_as_to_jax(static: Any) -> None:
    def power(x: Any, n: int) -> Any:
        return x * int(n)

    step, own = sw.jit(power, {"data": 2}, {"x": "data"}, **static), jax.jit(power, **static)
    for function in (step, own):
        close(function(X, 2), 2 * X)
        if static != {"static_argnums": (-1,), "static_argnames": ("n",)}:
            close(function(X, n=3), 3 * X)


def test_a_position_beyond_those_that_are_given_is_none_of_them() -> None:
    def power(x: Any, n: int, *, scale: int = 1) -> Any:
        return x * n * int(scale)

    options: Any = {"static_argnums": 1, "static_argnames": ("scale",)}
    step, own = sw.jit(power, {"data": 2}, {"x": "data"}, **options), jax.jit(power, **options)
    for function in (step, own):
        close(function(X, n=3, scale=2), 6 * X)


def test_where_jax_traces() -> None:
    step = sw.jit(lambda x, w: jnp.sin(x) @ w, {"data": 2, "model": 4}, ("data", (None, "model")))
    x, w = jnp.asarray(X), jnp.asarray(PARAMS["w1"])
    close(jax.jit(lambda x: step(x, w) + 1)(x), jnp.sin(x) @ w + 1)
    close(jax.grad(lambda x: step(x, w).sum())(x), jax.grad(lambda x: (jnp.sin(x) @ w).sum())(x))
    close(jax.vmap(step, (0, None))(jnp.stack([x, x + 1]), w), jnp.stack([jnp.sin(x) @ w, jnp.sin(x + 1) @ w]))
    close(sw.jit(jax.grad(lambda x: (jnp.sin(x) @ w).sum()), MESH, ("data",))(x), jnp.cos(x) * w.sum(1))


def test_arguments_that_lie_over_devices_keep_their_shardings() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    x = jax.device_put(X, NamedSharding(mesh, P("data", "model")))
    step = sw.jit(lambda x, y: x + y, mesh)
    assert repr(step.plan(x, X).arguments["y"]) == "[{data}, {model}]"
    assert step(x, X).sharding.spec == P("data", "model")


def test_what_it_came_to_is_there() -> None:
    step = sw.jit(train, MESH, ARGS, effort="default", results={".*": P()})
    likes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (PARAMS, X))
    assert step.spmd(*likes).verify().ok
    assert all(repr(sharding) in ("[{}, {}]", "[]") for sharding in step.plan(*likes).results.values())
    assert "HloModule" in step.compiled(PARAMS, X).as_text()
    assert repr(step) == "Jitted(train, {'data': 2, 'model': 4})"
    assert step.__name__ == "train"


def test_as_a_decorator() -> None:
    @partial(sw.jit, mesh=MESH, args={"x": P("data")})
    def double(x: Any) -> Any:
        """Twice as much."""
        return 2 * x

    close(double(X), 2 * X)
    assert double.__doc__ == "Twice as much."


def test_what_is_refused() -> None:
    with pytest.raises(sw.ShardingError, match="not a function: Mesh"):
        sw.jit(sw.Mesh(data=2), train)  # type: ignore[arg-type]
    jitted = sw.jit(jax.jit(train, static_argnames="power"), MESH, ARGS)
    with pytest.raises(sw.ShardingError, match="has static arguments of its own"):
        jitted(PARAMS, X, power=3)
    close(jitted(PARAMS, X), train(PARAMS, X))
    with pytest.raises(sw.ShardingError, match="did you mean 'params'"):
        sw.jit(train, MESH, {"parms": P()})(PARAMS, X)
    with pytest.raises(sw.ShardingError, match="has no mesh"):
        sw.jit(train)(PARAMS, X)
