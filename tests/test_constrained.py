"""`Plan.constrained`: a function with the plan's shardings as constraints, and `plan.in_shardings`, for `jax.jit`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

MESH = sw.Mesh(data=2, model=4)
RNG = np.random.default_rng(0)
PARAMS = {
    "w1": RNG.normal(size=(8, 16)).astype(np.float32),
    "ws": RNG.normal(size=(3, 16, 16)).astype(np.float32),
    "w2": RNG.normal(size=(16, 8)).astype(np.float32),
}
X = RNG.normal(size=(4, 8)).astype(np.float32)
ARGS = {"params/w1": P(None, "model"), "x": P("data")}


def net(params: Any, x: Any, *, times: int = 1) -> Any:
    hidden = jax.nn.relu(jnp.matmul(x, params["w1"]))
    hidden, sums = jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), c.sum()), hidden, params["ws"])
    return {"y": jax.nn.softmax(hidden @ params["w2"]) * times, "sums": sums}


@pytest.fixture(scope="module")
def plan() -> sw.Plan:
    return sw.from_jax(net, PARAMS, X, times=2, static_argnames="times").shard(MESH, ARGS)


def close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)


def test_the_function_comes_back_with_constraints(plan: sw.Plan) -> None:
    fn = plan.constrained()
    close(jax.jit(fn)(PARAMS, X), net(PARAMS, X, times=2))
    text = jax.jit(fn).lower(PARAMS, X).as_text()
    constraints = [
        line.split("<@mesh, ")[1].split(">")[0] for line in text.splitlines() if "sharding_constraint" in line
    ]
    assert len(constraints) > len(PARAMS) + 1 + 2, "those of arguments, results, and of what is between them"
    assert '[{"data"}, {"model"}]' in constraints, "the hidden layer, of which nobody said anything"


def test_results_lie_as_the_plan_says(plan: sw.Plan) -> None:
    results = jax.jit(plan.constrained())(PARAMS, X)
    for name, value in results.items():
        assert value.sharding.is_equivalent_to(plan.out_shardings[name], value.ndim)


def test_it_has_the_derivatives_of_the_function(plan: sw.Plan) -> None:
    fn = plan.constrained()
    params = jax.tree.map(jnp.asarray, PARAMS)
    close(
        jax.jit(jax.grad(lambda p: fn(p, X)["y"][:, 0].sum()))(params),
        jax.grad(lambda p: net(p, X, times=2)["y"][:, 0].sum())(params),
    )


def test_shardings_of_the_boundary_serve_jit(plan: sw.Plan) -> None:
    jitted = jax.jit(lambda p, x: net(p, x, times=2), in_shardings=plan.in_shardings, out_shardings=plan.out_shardings)
    close(jitted(*jax.device_put((PARAMS, X), plan.in_shardings)), net(PARAMS, X, times=2))


def test_functions_with_shardings_of_their_own_are_called_as_they_are() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    inner = jax.jit(jnp.sin, out_shardings=jax.sharding.NamedSharding(mesh, P(None, "model")))
    plan = sw.from_jax(lambda x: inner(x) * 2, X).shard(mesh, {"x": P("data")})
    close(jax.jit(plan.constrained())(X), np.sin(X) * 2)


def test_keys_and_exported_functions() -> None:
    key = jax.random.key(0)
    drawn = sw.from_jax(lambda key, x: jax.random.normal(key, x.shape) + x, key, X).shard(MESH, {"x": P("data")})
    close(jax.jit(drawn.constrained())(key, X), jax.random.normal(key, X.shape) + X)
    exported = sw.from_jax(export.export(jax.jit(jnp.sin))(X)).shard(MESH, {0: P("data")})
    close(jax.jit(exported.constrained())(X), np.sin(X))


def test_without_a_function_there_is_nothing_to_constrain() -> None:
    text = jax.jit(jnp.sin).lower(X).as_text(debug_info=True)
    with pytest.raises(sw.ShardingError, match="there is no function to constrain"):
        sw.load(text).shard(MESH, {0: "data"}).constrained()
