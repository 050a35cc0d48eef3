"""Functions with `custom_partitioning` in what JAX has lowered for several devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()

X = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)


def over_devices(function: Any) -> Any:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return jax.jit(function, in_shardings=NamedSharding(mesh, P("x", "y")))


def own(function: Any, program: Any, rule: str, static: tuple[int, ...] = ()) -> Any:
    """A function that has `program` for each device, as its arrays lie."""
    made = custom_partitioning(function, static_argnums=static)

    def partition(*given: Any) -> Any:
        *fixed, mesh, arguments, results = given
        lies = jax.tree.map(lambda one: one.sharding, (results, arguments))
        return mesh, lambda *arrays: program(*arrays, *fixed), *lies

    made.def_partition(partition=partition, sharding_rule=rule)
    return made


def test_it_is_what_it_gives_for_whole_arrays() -> None:
    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, axis=-1)

    def both(x: Any, scale: int) -> Any:
        return {"low": jnp.tril(x) * scale, "sums": jax.jit(jnp.cumsum)(x)}

    first = own(softmax, softmax, "i j -> i j")
    second = own(both, both, "i j -> i j, k", static=(1,))

    def function(use_first: Any, use_second: Any) -> Any:
        return lambda x: jax.tree.map(lambda one: one + 1, use_second(use_second(use_first(x), 3)["low"], 2))

    spmd = sw.from_jax(over_devices(function(first, second)), X).plan().partition()
    assert "CustomSPMDPartitioning" not in spmd.module("local")
    expected = function(softmax, both)(X)
    compiled = spmd.compile(trial=False)
    for results in (compiled(X), jax.jit(lambda x: compiled(x))(X)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), results, expected)


def test_what_sends_where_arrays_are_whole_is_refused() -> None:
    sums = own(lambda x: x.sum(0), lambda x: jax.lax.psum(x.sum(0), "x"), "i j -> j")
    with pytest.raises(sw.ShardingError, match="with custom_partitioning cannot be taken") as caught:
        sw.from_jax(over_devices(lambda x: sums(x)), X)
    assert "unbound axis name: x" in caught.value.diagnostic.cause
    plan = sw.from_jax(lambda x: sums(x), X).shard({"x": 2}, ("x",))
    np.testing.assert_allclose(plan.partition().compile(trial=False)(X), X.sum(0), rtol=1e-4, atol=1e-5)


def test_from_a_file_it_is_refused_where_it_is_compiled() -> None:
    same = own(lambda x: -x, lambda x: -x, "i j -> i j")
    text = over_devices(lambda x: same(x)).lower(X).as_text(debug_info=True)
    spmd = sw.load(text).plan().partition()
    with pytest.raises(sw.ShardingError, match="apart from the process that made it"):
        spmd.compile()
