"""Compiled programs inside of what JAX traces: part of a jitted function, differentiated, mapped; and what XLA tells."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices
from tests.runtime.test_called_again import MAXIMUM

eight_devices()

RNG = np.random.default_rng(0)
PARAMS = {"w1": RNG.normal(size=(8, 16)).astype(np.float32), "w2": RNG.normal(size=(16, 8)).astype(np.float32)}
X = RNG.normal(size=(4, 8)).astype(np.float32)
MESH = sw.Mesh(data=2, model=4)
ARGS = {"params/w1": P(None, "model"), "x": P("data")}


def net(params: Any, x: Any, times: Any = 1) -> Any:
    return jnp.tanh(x @ params["w1"]) @ params["w2"] * times


def spmd_of(mesh: Any = MESH) -> sw.Spmd:
    return sw.from_jax(net, PARAMS, X, 2).shard(mesh, ARGS).partition()


@pytest.fixture(scope="module")
def step() -> Any:
    return spmd_of().compile(trial=False)


def close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), one, other)


def sums(text: str | None) -> int:
    return len(re.findall(r"= \S+ all-reduce(?:-start)?\(", text or ""))


def test_inside_of_a_jitted_function_it_is_the_program_that_it_is(step: Any) -> None:
    jitted = jax.jit(lambda params, x: step(params, x, 2) + 1)
    close(jitted(PARAMS, X), net(PARAMS, X, 2) + 1)
    assert sums(jitted.lower(PARAMS, X).compile().as_text()) == sums(step.as_text()) == 1


def test_several_calls_in_one_function_do_not_wait_for_each_other(step: Any) -> None:
    @jax.jit
    def both(params: Any, x: Any) -> Any:
        once = step(params, x, 2)
        return step(params, once, 3), step(params, jnp.sin(x), 2)

    for _ in range(3):
        close(both(PARAMS, X), (net(PARAMS, net(PARAMS, X, 2), 3), net(PARAMS, jnp.sin(X), 2)))


def test_inside_of_a_loop(step: Any) -> None:
    looped = jax.jit(lambda params, x: jax.lax.scan(lambda c, _: (step(params, c, 1) / 4, c.sum()), x, length=3))
    expected = jax.lax.scan(lambda c, _: (net(PARAMS, c) / 4, c.sum()), jnp.asarray(X), length=3)
    close(looped(PARAMS, X), expected)


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: jax.grad(lambda p, x: f(p, x, 2).sum()),
        lambda f: jax.value_and_grad(lambda p, x: (f(p, x, 2) ** 2).mean(), argnums=(0, 1)),
        lambda f: jax.jit(jax.grad(lambda p, x: jnp.sin(f(p, x, 3)).sum())),
        lambda f: lambda p, x: jax.jvp(lambda p, x: f(p, x, 2), (p, x), (p, x)),
        lambda f: lambda p, x: jax.hessian(lambda x: f(p, x, 1).sum())(x),
        lambda f: lambda p, x: jax.vmap(f, (None, 0, None))(p, jnp.stack([x, 2 * x, x]), 2),
        lambda f: jax.jit(lambda p, x: jax.vmap(f, (None, 0, 0))(p, jnp.stack([x, 2 * x]), jnp.arange(2))),
        lambda f: jax.grad(lambda p, x: jax.checkpoint(f)(p, x, 2).sum()),
    ],
)
def test_transformations_are_those_of_the_function(step: Any, transformed: Callable[[Any], Any]) -> None:
    params, x = jax.tree.map(jnp.asarray, (PARAMS, X))
    close(transformed(step)(params, x), transformed(net)(params, x))


def test_shapes_are_known_without_running(step: Any) -> None:
    assert jax.eval_shape(step, PARAMS, X, 2).shape == (4, 8)
    with pytest.raises(sw.ShardingError, match="argument x"):
        jax.eval_shape(step, PARAMS, X[:3], 2)


@pytest.mark.parametrize("types", [AxisType.Auto, AxisType.Explicit])
def test_under_a_mesh_that_is_set(types: Any) -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(types, types))
    with jax.set_mesh(mesh):
        step = spmd_of(mesh).compile(trial=False)
        close(step(PARAMS, X, 2), net(PARAMS, X, 2))
        close(jax.jit(lambda p, x: step(p, x, 2) * 2)(PARAMS, X), 2 * net(PARAMS, X, 2))


def test_on_devices_in_another_order() -> None:
    devices = np.array(jax.devices())[[7, 6, 5, 4, 2, 3, 1, 0]].reshape(2, 4)
    step = spmd_of(jax.sharding.Mesh(devices, ("data", "model"))).compile(trial=False)
    close(step(PARAMS, X, 2), net(PARAMS, X, 2))
    jitted = jax.jit(lambda p, x: step(p, x, 2) * 2)
    close(jitted(PARAMS, X), 2 * net(PARAMS, X, 2))
    straight = NamedSharding(jax.make_mesh((8,), ("all",), axis_types=(AxisType.Auto,)), P())
    try:
        other = jitted(PARAMS, jax.device_put(X, straight))
    except ValueError as error:  # as JAX has it of functions on two orders of devices
        assert "incompatible devices" in str(error)
    else:
        close(other, 2 * net(PARAMS, X, 2))


def test_uneven_arguments_and_results() -> None:
    x = np.arange(7 * 5, dtype=np.float32).reshape(7, 5)
    program = sw.from_jax(lambda x: (jnp.sin(x), x.sum(0)), x)
    step = program.shard(sw.Mesh(data=8), {"x": "data"}).partition().compile(trial=False)
    close(step(x), (np.sin(x), x.sum(0)))
    close(jax.jit(lambda x: step(2 * x))(x), (np.sin(2 * x), 2 * x.sum(0)))
    close(jax.grad(lambda x: step(x)[0].sum())(jnp.asarray(x)), np.cos(x))


def test_random_keys_and_keyword_arguments() -> None:
    def drawn(key: Any, *, shape_of: Any) -> Any:
        return jax.random.normal(key, shape_of.shape), jax.random.split(key)

    key, like = jax.random.key(3), np.zeros((8, 4), np.float32)
    program = sw.from_jax(drawn, key, shape_of=like)
    step = program.shard(sw.Mesh(data=8), results={"result/0": "data"}).partition().compile(trial=False)
    expected = drawn(key, shape_of=like)
    for run in (step, jax.jit(step)):
        values, keys = run(key, shape_of=like)
        close(values, expected[0])
        assert (keys == expected[1]).all()


def test_a_program_without_its_function_says_so() -> None:
    step = pickle.loads(pickle.dumps(spmd_of())).compile(trial=False)
    close(jax.jit(step)(PARAMS, X, 2), net(PARAMS, X, 2))
    with pytest.raises(sw.ShardingError, match="cannot be differentiated or mapped here"):
        jax.grad(lambda x: step(PARAMS, x, 2).sum())(jnp.asarray(X))


def test_a_program_from_text_is_part_of_others_and_has_no_derivative() -> None:
    text = jax.jit(lambda x: jnp.sin(x)).lower(X).as_text()
    step = sw.load(text).shard(MESH, {0: "data"}).partition().compile(trial=False)
    close(jax.jit(lambda x: step(2 * x)[0])(X), np.sin(2 * X))
    with pytest.raises(sw.ShardingError, match="the program cannot be differentiated"):
        jax.grad(lambda x: step(x)[0].sum())(jnp.asarray(X))


def test_a_program_whose_entry_has_another_name_is_compiled() -> None:
    text = jax.jit(lambda x: jnp.sin(x)).lower(X).as_text().replace("@main", "@forward")
    step = sw.load(text).shard(MESH, {0: "data"}).partition().compile(trial=False)
    for run in (step, jax.jit(lambda x: step(x))):
        close(run(X)[0], np.sin(X))


def test_what_jax_has_no_words_for_is_refused_where_it_traces() -> None:
    step = sw.load(MAXIMUM).plan().partition().compile(trial=False)
    with pytest.raises(sw.ShardingError, match="cannot be part of what JAX traces"):
        jax.jit(step)(np.zeros((8, 16), np.int32))
    assert "HloModule" in step.as_text()
    assert step.memory_analysis().argument_size_in_bytes == 8 * 16 * 4 // 8


def test_what_xla_tells_of_it(step: Any) -> None:
    assert step.as_text().startswith("HloModule jit_net")
    assert step.cost_analysis()["flops"] > 0
    of_device = sum(one.size * 4 // parts for one, parts in ((PARAMS["w1"], 4), (PARAMS["w2"], 4), (X, 2)))
    assert step.memory_analysis().argument_size_in_bytes == of_device + 4


def test_numbers_of_64_bits_are_those_of_jit() -> None:
    large = np.arange(8, dtype=np.int64)
    step = sw.from_jax(lambda x: x + 1, large).shard(sw.Mesh(x=8), {"x": "x"}).partition().compile(trial=False)
    assert step(large).dtype == np.int32
    with jax.enable_x64(True):
        wide = sw.from_jax(lambda x: x + 1, large).shard(sw.Mesh(x=8), {"x": "x"}).partition().compile(trial=False)
    for _ in range(2):
        assert wide(large + 2**40).dtype == np.int64
        np.testing.assert_array_equal(wide(large + 2**40), large + 2**40 + 1)


def test_calls_of_python_are_carried_and_run() -> None:
    seen: list[tuple[int, ...]] = []

    def double(array: Any) -> Any:
        seen.append(array.shape)
        return 2 * np.asarray(array)

    def function(x: Any) -> Any:
        like = jax.ShapeDtypeStruct(x.shape, x.dtype)
        first = jax.pure_callback(double, like, jnp.sin(x))
        return jax.pure_callback(lambda a: np.asarray(a) + 1, like, first) * x

    step = sw.from_jax(function, X).shard(MESH, {"x": P("data", "model")}).partition().compile()
    for _ in range(2):
        close(step(X), (2 * np.sin(X) + 1) * X)
    assert set(seen) == {X.shape}, "each device calls it with all of the array"
    close(jax.jit(lambda x: jax.pure_callback(lambda a: -np.asarray(a), x, step(x)))(X), -(2 * np.sin(X) + 1) * X)


@pytest.mark.parametrize("order", [[4, 5, 6, 7], [7, 2, 5, 0]])
def test_on_other_devices_than_the_first_ones(order: list[int]) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[order].reshape(2, 2), ("data", "model"))
    plan = sw.from_jax(net, PARAMS, X, 2).shard(mesh, (None, NamedSharding(mesh, P("data")), None))
    step = plan.partition().compile(trial=False)
    result = step(PARAMS, X, 2)
    close(result, net(PARAMS, X, 2))
    assert [device.id for device in result.sharding.mesh.devices.flat] == order
    assert plan.in_shardings[1].mesh == mesh
    close(jax.jit(plan.constrained())(PARAMS, X, 2), net(PARAMS, X, 2))


def test_maps_that_are_manual_along_some_axes_stand_inside() -> None:
    mesh = jax.make_mesh((2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)

    def inner(x: Any) -> Any:
        return x + jax.lax.psum(x, "model")

    def outer(x: Any) -> Any:
        by_model = jax.shard_map(inner, in_specs=P(None, "model"), out_specs=P(None, "model"), axis_names={"model"})
        return by_model(jnp.sin(x)) - jax.lax.psum(x, "data")

    nested = jax.jit(jax.shard_map(outer, mesh=mesh, in_specs=P("data"), out_specs=P("data"), axis_names={"data"}))
    step = sw.from_jax(nested, X).shard(mesh).partition().compile(trial=False)
    close(step(X), nested(X))
    close(jax.jit(lambda x: step(x) * 2)(X), nested(X) * 2)
