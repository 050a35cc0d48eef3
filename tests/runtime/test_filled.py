"""Uneven arguments and results of compiled programs: arrays of their own shapes, laid out by what divides."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardwright as sw
from tests.frontends.devices import eight_devices

eight_devices()


def step(weights: Any, batch: Any) -> Any:
    out = jnp.tanh(batch @ weights)
    return weights - 0.1 * batch.T @ out, out.sum(0), out


def arrays(rows: int = 7, inner: int = 6) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(inner, 5)).astype(np.float32), rng.normal(size=(rows, inner)).astype(np.float32)


@pytest.mark.parametrize(
    ("mesh", "args"),
    [
        (sw.Mesh(x=4), {0: "-,-", 1: "x,-"}),
        (sw.Mesh(x=4), {0: "x,-", 1: "-,x"}),
        (sw.Mesh(x=3, y=2), {0: "y,x", 1: "x,y"}),
        (sw.Mesh(x=2, y=4), {0: "y,-", 1: sw.P(("x", "y"))}),
    ],
)
def test_arrays_go_in_and_come_out_with_their_own_shapes(mesh: sw.Mesh, args: dict[str | int, Any]) -> None:
    given = arrays()
    spmd = sw.from_jax(step, *given).shard(mesh, args=args).partition()
    compiled = spmd.compile(trial=False)
    assert any(not one.divides(array.shape) for one, array in zip(spmd.in_shardings, given, strict=True))
    for _ in range(2):
        results = compiled(*given)
        for one, other, sharding in zip(results, step(*given), compiled.out_shardings, strict=True):
            assert one.shape == other.shape
            assert one.sharding == sharding
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        given = (results[0], given[1])


def test_arguments_are_taken_as_the_plan_lays_them_out() -> None:
    given = arrays()
    plan = sw.from_jax(step, *given).shard(sw.Mesh(x=4), args={1: "x,-"})
    assert repr(plan.arguments["batch"]) == "[{x}, {}]"
    compiled = plan.partition().compile(trial=False)
    assert compiled.in_shardings == plan.in_shardings
    placed = jax.device_put(given, plan.in_shardings)
    np.testing.assert_allclose(compiled(*placed)[1], step(*given)[1], rtol=1e-5, atol=1e-5)


def test_what_divides_of_two_axes_is_what_arrays_are_laid_out_by() -> None:
    """Six rows over eight devices: JAX has three on each of two, the program one on each of six."""
    given = arrays(rows=6)
    spmd = sw.from_jax(step, *given).shard(sw.Mesh(x=2, y=4), args={1: sw.P(("x", "y"))}).partition()
    compiled = spmd.compile(trial=False)
    assert [one.shard_shape(array.shape) for one, array in zip(compiled.in_shardings, given, strict=True)][1] == (3, 6)
    assert spmd.in_shardings[1].local_shape((6, 6)) == (1, 6)
    np.testing.assert_allclose(compiled(*given)[2], step(*given)[2], rtol=1e-5, atol=1e-5)


def test_donated_uneven_arguments_are_reused() -> None:
    given = arrays()
    donating = jax.jit(step, donate_argnums=0)
    spmd = sw.from_jax(donating, *given).shard(sw.Mesh(x=4), args={0: "x,-", 1: "-,x"}).partition()
    spmd.verify().require()
    results = spmd.compile(trial=False)(*given)
    np.testing.assert_allclose(results[0], step(*given)[0], rtol=1e-5, atol=1e-5)


def test_a_program_with_a_manual_computation_is_verified_with_uneven_arguments() -> None:
    rows = '{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'
    sw.load(f"""sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<7x6xf32> {rows}, %b: tensor<8x6xf32> {rows}) -> (tensor<7x6xf32>, tensor<8x6xf32>) {{
      %0 = stablehlo.tanh %a : tensor<7x6xf32>
      %1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{{"x"}}, {{}}]>] out_shardings=[<@mesh, [{{"x"}}, {{}}]>]
          manual_axes={{"x"}} (%c: tensor<2x6xf32>) {{
        %2 = stablehlo.cosine %c : tensor<2x6xf32>
        sdy.return %2 : tensor<2x6xf32>
      }} : (tensor<8x6xf32>) -> tensor<8x6xf32>
      return %0, %1 : tensor<7x6xf32>, tensor<8x6xf32>
    }}""").plan().partition().verify().require()
