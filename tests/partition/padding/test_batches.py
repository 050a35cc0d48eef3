"""Calls whose rules are given, in a batch that does not divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import shardwright as sw

CALL = """sdy.mesh @m = <["x"=4]>
func.func @main(%a: tensor<18x8xf32> {sdy.sharding = #sdy.sharding<@m, [{"x"}, {}]>}) -> tensor<18x8xf32> {
  %0 = stablehlo.custom_call @f(%a) {ATTRIBUTES} : (tensor<18x8xf32>) -> tensor<18x8xf32>
  return %0 : tensor<18x8xf32>
}
"""


@pytest.mark.parametrize("of", [jnp.linalg.cholesky, jnp.linalg.qr, jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.inv])
def test_decompositions_of_an_uneven_batch_send_nothing(of: Callable[[Any], Any]) -> None:
    def decomposed(a: Any) -> Any:
        return of(a @ a.transpose(0, 2, 1) + 8 * jnp.eye(8))

    program = sw.from_jax(decomposed, jax.ShapeDtypeStruct((18, 8, 8), jnp.float32))
    spmd = program.shard(sw.Mesh(x=4), args=[("x", None, None)]).partition()
    assert spmd.verify().ok
    assert not spmd.traffic.total.executed_bytes
    assert not spmd.notes


@pytest.mark.parametrize("tells", [True, False])
def test_only_of_a_batch_that_the_call_tells_of(tells: bool) -> None:
    """What is split may be computed in blocks: that shards can be computed says nothing of single indices."""
    rule = "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=18, j=8}>"
    batch = ', mhlo.frontend_attributes = {num_batch_dims = "1"}' if tells else ""
    spmd = sw.load(CALL.replace("{ATTRIBUTES}", f"{{{rule}{batch}}}")).plan().partition()
    assert ("{i=20, j=8}" in spmd.module("explicit")) == tells
    assert bool(spmd.traffic.total.executed_bytes) != tells
