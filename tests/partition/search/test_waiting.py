"""Values that wait at a barrier, as those that are computed once more, and what branches give: each in whichever layout
is best.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import shardwright as sw
from shardwright.memo import Session
from shardwright.partition.search.best import Searched, search
from shardwright.program import Plan
from tests.partition.search.programs import LINE, SCALED, ready

T, C, D = 256, 32, 16
"""Positions, those of a chunk, and features."""

GATHERED = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<64x32xf32>, %t: tensor<f32>)
    -> (tensor<256x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<f32>) {
  %0 = stablehlo.tanh %a : tensor<256x64xf32>
  %1:3 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, []>]>}
      %0, %w, %t : tensor<256x64xf32>, tensor<64x32xf32>, tensor<f32>
  %2 = stablehlo.dot %1#0, %1#1 : (tensor<256x64xf32>, tensor<64x32xf32>) -> tensor<256x32xf32>
  return %2, %1#2 : tensor<256x32xf32>, tensor<f32>
}"""


BRANCHES = """
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %i: tensor<i32>)
    -> (tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.tanh %a : tensor<256x64xf32>
  %1 = "stablehlo.case"(%i) ({
    %3 = stablehlo.exponential %0 : tensor<256x64xf32>
    stablehlo.return %3 : tensor<256x64xf32>
  }, {
    stablehlo.return %a : tensor<256x64xf32>
  }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>} : (tensor<i32>) -> tensor<256x64xf32>
  %2 = stablehlo.sine %1 : tensor<256x64xf32>
  return %2 : tensor<256x64xf32>
}"""


def searched(plan: Plan) -> Searched:
    with Session(hardware=SCALED):
        return search(ready(plan))[1]


@pytest.mark.parametrize("text", [GATHERED, BRANCHES], ids=["barrier", "branches"])
def test_what_waits_or_branches_give_is_not_gathered_for_it(text: str) -> None:
    plan = sw.load(text).plan()
    assert plan.partition(effort="fast").outcome.bytes_sent > 0
    chosen = plan.partition(effort="default")
    assert chosen.outcome.bytes_sent == 0
    assert chosen.verify().ok


def test_what_is_computed_once_more_is_chosen_to_the_end() -> None:
    """The gradient of attention to a few keys at a time."""

    def attended(x: jax.Array, w: jax.Array) -> jax.Array:
        @jax.checkpoint
        def step(carried: tuple[jax.Array, jax.Array], keys: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            weights = jnp.exp(x @ w @ keys.T)
            return (carried[0] + weights.sum(1), carried[1] + weights @ keys), None

        start = jnp.zeros(T), jnp.zeros((T, D))
        (total, made), _ = lax.scan(step, start, x.reshape(T // C, C, D))
        return (made / total[:, None]).sum()

    arguments = jax.ShapeDtypeStruct((T, D), jnp.float32), jax.ShapeDtypeStruct((D, D), jnp.float32)
    plan = sw.from_jax(jax.grad(attended, 1), *arguments).shard(LINE, {"x": "x,-"})
    assert searched(plan).gap == pytest.approx(0, abs=1e-5)
    assert plan.partition(effort="default").verify().ok


@pytest.mark.parametrize("name", ["case", "if"])
def test_branches_may_give_what_nobody_reads(name: str) -> None:
    text = f"""
sdy.mesh @mesh = <["x"=4]>
func.func @main(%a: tensor<256x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %i: tensor<{"i1" if name == "if" else "i32"}>)
    -> (tensor<256x64xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
  %1:3 = "stablehlo.{name}"(%i) ({{
    %3 = stablehlo.exponential %a : tensor<256x64xf32>
    %c = stablehlo.constant dense<1.0> : tensor<256x64xf32>
    stablehlo.return %3, %c, %a : tensor<256x64xf32>, tensor<256x64xf32>, tensor<256x64xf32>
  }}, {{
    %c = stablehlo.constant dense<2.0> : tensor<256x64xf32>
    stablehlo.return %a, %c, %a : tensor<256x64xf32>, tensor<256x64xf32>, tensor<256x64xf32>
  }}) : (tensor<{"i1" if name == "if" else "i32"}>) -> (tensor<256x64xf32>, tensor<256x64xf32>, tensor<256x64xf32>)
  %2 = stablehlo.sine %1#0 : tensor<256x64xf32>
  return %2 : tensor<256x64xf32>
}}"""
    chosen = sw.load(text).plan().partition(effort="default")
    assert chosen.outcome.bytes_sent == 0
    assert chosen.verify().ok


@pytest.mark.parametrize("specs", [("x,-", "-,x"), ("-,x", "-,-"), ("-,x", "x,-"), ("x,-", "x,-")])
@pytest.mark.parametrize("is_turned", [False, True])
def test_waiting_costs_nothing(specs: tuple[str, str], is_turned: bool) -> None:
    def plan(waits: bool) -> Plan:
        def function(a: jax.Array, b: jax.Array) -> jax.Array:
            both = a @ b, jnp.tanh(a)
            one, other = lax.optimization_barrier(both) if waits else both
            return (one.T if is_turned else one) @ other

        return sw.from_jax(function, *[jax.ShapeDtypeStruct((8, 8), jnp.float32)] * 2).shard(
            LINE, dict(enumerate(specs))
        )

    without, waiting = searched(plan(waits=False)), searched(plan(waits=True))
    assert waiting.gap == pytest.approx(0, abs=1e-5)
    assert waiting.seconds == pytest.approx(without.seconds, rel=1e-9)
