"""Stacks that a loop takes a row of in each turn: gathered in front of it where that takes less, and is not much."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw

TURNS = 8
X = np.sin(np.arange(TURNS * 4 * 32, dtype=np.float32)).reshape(TURNS, 4, 32)
W = np.cos(np.arange(32 * 32, dtype=np.float32)).reshape(32, 32)


def cells(w: Any, x: Any) -> Any:
    return lax.scan(lambda h, row: (jnp.tanh(h @ w + row), None), jnp.zeros((4, 32)), x)[0]


def gradients(w: Any, x: Any) -> Any:
    return jax.grad(lambda w: jnp.sum(cells(w, x) ** 2))(w)


def in_turns(w: Any, x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, h: cells(w, x + h), jnp.zeros((4, 32)))


def layers(weights: Any, x: Any) -> Any:
    return lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, weights)[0]


@pytest.mark.parametrize("function", [cells, gradients])
def test_rows_over_devices_are_gathered_once(function: Any) -> None:
    plan = sw.from_jax(function, W, X).shard({"data": 4}, {"x": "data,-,-"})
    with sw.Session(hardware=sw.hardware("h100")):
        spmd, chosen = plan.partition(), plan.partition(effort="default")
    assert spmd.outcome.collectives == 1
    assert spmd.outcome.bytes_sent == X.nbytes * 3 / 4
    assert chosen.outcome.seconds <= spmd.outcome.seconds
    assert spmd.verify().ok
    assert chosen.verify().ok


def test_a_stack_that_each_turn_of_another_loop_makes_is_gathered_in_each() -> None:
    spmd = sw.from_jax(in_turns, W, X).shard({"data": 4}, {"x": "data,-,-"}).partition()
    assert spmd.outcome.collectives <= 3
    assert spmd.verify().ok


def test_a_stack_that_is_most_of_all_there_is_stays_where_it_lies() -> None:
    weights = np.stack([W] * TURNS)
    spmd = sw.from_jax(layers, weights, X[0]).shard({"data": 4}, {"weights": "data,-,-"}).partition()
    assert spmd.outcome.collectives == TURNS  # which costs a start each, and no memory
    assert spmd.verify().ok


def test_no_turns_are_counted_of_a_loop_whose_end_depends_on_data() -> None:
    def until(w: Any, x: Any) -> Any:
        def go_on(carry: Any) -> Any:
            return (carry[0] < TURNS) & (jnp.sum(carry[1]) < 1e6)

        def turn(carry: Any) -> Any:
            i, h = carry
            return i + 1, jnp.tanh(h @ w + lax.dynamic_index_in_dim(x, i, keepdims=False))

        return lax.while_loop(go_on, turn, (0, jnp.zeros((4, 32))))[1]

    spmd = sw.from_jax(until, W, X).shard({"data": 4}, {"x": "data,-,-"}).partition()
    assert spmd.verify().ok


MANUAL = """
sdy.mesh @mesh = <["data"=4]>
func.func @main(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}]>] manual_axes={"data"}
      (%stack: tensor<8x4xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<4xf32>
    %0:3 = stablehlo.while(%i = %zero, %sum = %none, %s = %stack) : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>
      cond {
        %end = stablehlo.constant dense<8> : tensor<i32>
        %go = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %row = stablehlo.dynamic_slice %s, %i, %zero, sizes = [1, 4]
            : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
        %flat = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4xf32>
        %more = stablehlo.add %sum, %flat : tensor<4xf32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %next, %more, %s : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>
      }
    sdy.return %0#1 : tensor<4xf32>
  } : (tensor<8x4xf32>) -> tensor<4xf32>
  %t = stablehlo.tanh %r : tensor<4xf32>
  return %t : tensor<4xf32>
}"""


def test_loops_of_manual_computations_stay_as_they_are_written() -> None:
    spmd = sw.load(MANUAL).plan().partition()
    assert spmd.outcome.collectives == 0
    assert spmd.verify().ok
