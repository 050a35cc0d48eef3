"""What several loops begin with, filled with one number, where XLA for GPUs gets a program."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardwright as sw
from shardwright.ir.context import context, load_module
from shardwright.runtime import own_fills
from shardwright.runtime.for_partitioner import write_for_partitioner
from shardwright.runtime.own_fills import fill_for_each_loop
from tests.frontends.devices import eight_devices

eight_devices()

TYPE = "tensor<2048x262144xf32>"  # 2 GiB


def loop(result: str, begun: str, returned: str = "%e", type: str = TYPE) -> str:
    return f"""
  {result}:2 = stablehlo.while(%i = %zero, %a = {begun}) : tensor<i32>, {type} cond {{
    %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %e = stablehlo.add %a, %a : {type}
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, {returned} : tensor<i32>, {type}
  }}"""


def program(*loops: str, type: str = TYPE) -> str:
    """Of loops that each begin with their own fill, or `%f`, or `%g`, which are of one number, or `%h`, of another."""
    return f"""
func.func @main(%n: tensor<i32>, %x: {type}) -> tensor<i32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %scalar = stablehlo.constant dense<0.0> : tensor<f32>
  %f = stablehlo.broadcast_in_dim %scalar, dims = [] : (tensor<f32>) -> {type}
  %g = stablehlo.constant dense<0.0> : {type}
  %h = stablehlo.constant dense<1.0> : {type}
  {"".join(loops)}
  return %0#0 : tensor<i32>
}}"""


def barriers(text: str) -> list[int]:
    """How many tensors each barrier takes."""
    module = load_module(text)
    with context():
        fill_for_each_loop(module)
    assert module.operation.verify()
    return [row.count("%") - 1 for row in str(module).splitlines() if "optimization_barrier" in row]


def test_each_of_several_loops_has_its_own() -> None:
    assert barriers(program(loop("%0", "%f"), loop("%1", "%g"), loop("%2", "%h"))) == [1, 1]


@pytest.mark.parametrize(
    "loops",
    [
        (loop("%0", "%f"),),
        (loop("%0", "%f"), loop("%1", "%h")),
        (loop("%0", "%f"), loop("%1", "%x")),
        (loop("%0", "%f"), loop("%1", "%f", returned="%a")),
    ],
    ids=["of one loop", "of different numbers", "of an argument", "of a loop that does not change it"],
)
def test_others_stay_as_they_are(loops: tuple[str, ...]) -> None:
    assert barriers(program(*loops)) == []


def test_small_ones_stay_as_they_are() -> None:
    small = "tensor<8x8xf32>"
    assert barriers(program(loop("%0", "%f", type=small), loop("%1", "%f", type=small), type=small)) == []


@pytest.mark.parametrize(("platform", "count"), [("gpu", 2), ("cuda", 2), ("tpu", 0), ("cpu", 0)])
def test_it_is_done_for_gpus(platform: str, count: int) -> None:
    module = load_module(program(loop("%0", "%f"), loop("%1", "%f")))
    with context():
        write_for_partitioner(module, [platform])
    assert str(module).count("optimization_barrier") == count


def test_programs_compute_the_same_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one of JAX's own, as if that were for GPUs, and as if little were much."""

    def turned(x: Any, w: Any) -> Any:
        def turn(carried: Any, row: Any) -> tuple[Any, Any]:
            new = jnp.tanh(carried @ w + row)
            return new, new * carried

        return lax.scan(turn, jnp.zeros_like(x[0]), x)[1]

    def function(x: Any, v: Any, w: Any) -> Any:
        return jax.grad(lambda v: turned(turned(x, v), w).sum())(v)

    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape, np.float32) for shape in ((6, 8, 16), (16, 16), (16, 16))]
    compiled = sw.from_jax(function, *values).shard(sw.Mesh(x=8), args={0: "-,x,-"}).partition().compile(trial=False)
    outside = jax.jit(lambda *values: 2 * compiled(*values))
    before = outside.lower(*values).as_text()
    monkeypatch.setattr(own_fills, "_MUCH", 0)
    monkeypatch.setattr("shardwright.runtime.for_partitioner.GPU_PLATFORMS", frozenset(("cpu",)))
    outside = jax.jit(lambda *values: 2 * compiled(*values))
    after = outside.lower(*values).as_text()
    assert len(re.findall("optimization_barrier", after)) > len(re.findall("optimization_barrier", before))
    np.testing.assert_allclose(outside(*values), 2 * function(*values), rtol=1e-4, atol=1e-4)
