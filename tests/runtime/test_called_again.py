"""Calls after the first one: arrays that lie as they should go in as they are, and come out as JAX first checked them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import shardwright as sw
from shardwright.program import Spmd
from tests.frontends.devices import eight_devices

eight_devices()

RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(16, 16)).astype(np.float32), RNG.normal(size=(8, 16)).astype(np.float32)
ARGS: dict[str | int, Any] = {"w": "-,model", "x": "data,-"}

IN_ORDER = 'sdy.mesh @a = <["x"=2, "y"=4]>'
ELSEWHERE = 'sdy.mesh @a = <["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 2, 3, 1, 0]>'
MAXIMUM = """
sdy.mesh @m = <["p"=2, "q"=4]>
func.func @main(%x: tensor<8x16xi32> {sdy.sharding = #sdy.sharding<@m, [{"p"}, {"q"}]>})
    -> (tensor<8xi32> {sdy.sharding = #sdy.sharding<@m, [{"p"}], unreduced=max{"q"}>}) {
  %low = stablehlo.constant dense<-1000> : tensor<i32>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
    : (tensor<8x16xi32>, tensor<i32>) -> tensor<8xi32>
  return %0 : tensor<8xi32>
}"""
OTHER_RESULT = 'sdy.mesh @b = <["x"=2, "y"=4], device_ids=[0, 2, 4, 6, 1, 3, 5, 7]>'


def step(w: Any, x: Any) -> Any:
    y = jnp.tanh(x @ w)
    return w - 0.1 * x.T @ y, y.sum()


def trained(**donation: Any) -> Spmd:
    return sw.from_jax(step, W, X, **donation).shard(sw.Mesh(data=2, model=4), args=ARGS).partition()


def test_a_loop_of_steps_is_that_of_the_function() -> None:
    spmd = trained(donate_argnums=0)
    compiled = spmd.compile(trial=False)
    w, expected = W, W
    x = jax.device_put(X, compiled.in_shardings[1])
    for _ in range(4):
        w, total = compiled(w, x)
        expected, expected_total = step(expected, X)
        assert (w.sharding, total.sharding) == compiled.out_shardings
        assert w.committed
        assert not x.is_deleted()
        np.testing.assert_allclose(w, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total, expected_total, rtol=1e-4, atol=1e-4)


def test_results_go_into_functions_of_jax() -> None:
    compiled = trained().compile(trial=False)
    mesh = compiled.out_shardings[0].mesh
    double = jax.jit(lambda w: 2 * w, out_shardings=NamedSharding(mesh, PartitionSpec("data")))
    first, second = (compiled(W, X)[0] for _ in range(2))
    assert second.aval == first.aval
    assert jax.typeof(second) == jax.typeof(first)
    np.testing.assert_array_equal(double(second), double(first))


@pytest.mark.parametrize("lies", ["numpy", "whole", "other", "one device", "transposed"])
def test_arrays_that_lie_otherwise_are_brought_where_they_belong(lies: str) -> None:
    compiled = trained().compile(trial=False)
    mesh = compiled.in_shardings[0].mesh
    places: dict[str, Any] = {
        "whole": NamedSharding(mesh, PartitionSpec()),
        "other": NamedSharding(mesh, PartitionSpec("model", "data")),
        "transposed": NamedSharding(jax.sharding.Mesh(mesh.devices.T, ("model", "data")), PartitionSpec(None, "model")),
        "one device": jax.devices()[3],
    }
    w = W if lies == "numpy" else jax.device_put(W, places[lies])
    for _ in range(3):
        np.testing.assert_allclose(compiled(w, X)[0], step(W, X)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [300, -1, 2.0, 2**70, "a"])
def test_numbers_that_are_none_of_the_type_are_refused(number: Any) -> None:
    """Of 4.5 it made 4."""
    x = np.arange(8, dtype=np.uint8)
    plan = sw.from_jax(lambda x, n: x + n, x, np.uint8(1)).shard({"x": 2}, ("x", None))
    compiled = plan.partition().compile(trial=False)
    for fits in (7, True, np.int64(5), np.uint8(200)):
        np.testing.assert_array_equal(compiled(x, fits), x + np.uint8(fits))
    with pytest.raises(sw.ShardingError, match=r"is called with .* where it was lowered for uint8\[\]"):
        compiled(x, number)


@pytest.mark.parametrize("committed", ["x", "key", "x and key"])
def test_random_keys_are_brought_where_they_belong(committed: str) -> None:
    def drawn(x: Any, keys: Any) -> Any:
        return x + jax.vmap(lambda key: jax.random.normal(key, (16,)))(keys), keys

    x, keys = jnp.asarray(X), jax.random.split(jax.random.key(0, impl="rbg"), 8)
    expected, _ = drawn(x, keys)
    first = jax.devices()[0]
    args = [jax.device_put(one, first) if name in committed else one for name, one in (("x", x), ("key", keys))]
    run = sw.jit(drawn, {"data": 8}, {"x": "data"})
    for _ in range(2):
        values, back = run(*args)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
        assert (back == keys).all()


def test_a_donated_array_is_refused_the_second_time() -> None:
    compiled = trained(donate_argnums=0).compile(trial=False)
    w = jax.device_put(W, compiled.in_shardings[0])
    compiled(w, X)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="deleted"):
            compiled(w, X)


@pytest.mark.parametrize("mesh", [IN_ORDER, ELSEWHERE])
@pytest.mark.parametrize("result", ["a", "b"])
def test_shards_stay_with_their_devices_in_any_order(mesh: str, result: str) -> None:
    text = f"""
    {mesh}
    {OTHER_RESULT}
    func.func @main(%x: tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@a, [{{"x"}}, {{"y"}}]>}})
        -> (tensor<8x16xf32> {{sdy.sharding = #sdy.sharding<@{result}, [{{"y"}}, {{}}]>}}) {{
      %0 = stablehlo.negate %x : tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }}"""
    compiled = sw.load(text).plan().partition().compile(trial=False)
    x = jax.device_put(X, compiled.in_shardings[0])
    results = [compiled(x)[0] for _ in range(3)]
    for one in results:
        np.testing.assert_array_equal(one, -X)
        shards = {shard.device: shard.index for shard in one.addressable_shards}
        assert shards == compiled.out_shardings[0].devices_indices_map(X.shape)


def test_contributions_to_a_maximum_are_combined_each_time() -> None:
    spmd = sw.load(MAXIMUM).plan().partition()
    assert [p.kind for p in spmd.out_shardings[0].partial] == ["max"]
    compiled, x = spmd.compile(trial=False), np.arange(128, dtype=np.int32).reshape(8, 16) % 37
    for factor in (1, 2, -1):
        np.testing.assert_array_equal(compiled(factor * x)[0], (factor * x).max(1))
