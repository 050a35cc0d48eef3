"""Programs that one device cannot run are held against XLA's own partition of them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from shardwright.errors import ShardingError
from shardwright.mesh import Mesh
from shardwright.program import Spmd, from_jax, load
from shardwright.runtime.annotated import annotated, needs_devices
from shardwright.runtime.shards import cut
from shardwright.sharding import TensorSharding


def _spmd() -> Spmd:
    mesh = jax.sharding.AbstractMesh((2, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def body(x: Any, w: Any) -> Any:
        return jax.lax.psum(x @ w, "model") * (1 + jax.lax.axis_index("data"))

    def function(x: Any, w: Any) -> Any:
        y = jax.shard_map(body, mesh=mesh, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data"))(x, w)
        return jnp.tanh(y), y.sum(axis=0)

    x, w = jax.ShapeDtypeStruct((8, 16), jnp.float32), jax.ShapeDtypeStruct((16, 8), jnp.float32)
    return from_jax(function, x, w).shard(Mesh(data=2, model=2), {"x": "data,-"}).partition(effort="fast")


def test_a_manual_computation_is_verified_and_a_broken_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    spmd = _spmd()
    assert needs_devices(spmd.plan.program.graph)
    verification = spmd.verify()
    assert verification.ok
    assert verification.runs == 5
    right = spmd.module("local")
    wrong = right.replace("dense<[[0, 1], [2, 3]]>", "dense<[[0, 2], [1, 3]]>")  # as JAX 0.10 writes the groups
    wrong = wrong.replace('axis_ref<name = "model">', 'axis_ref<name = "data">')
    assert wrong != right
    monkeypatch.setattr(type(spmd), "module", lambda spmd, stage="local": wrong)
    assert not spmd.verify().ok


def test_layouts_that_xla_does_not_partition_are_refused() -> None:
    spmd = _spmd()
    mesh = Mesh(data=2, model=2, device_ids=[3, 2, 1, 0])
    turned = tuple(TensorSharding(mesh, sharding.dims) for sharding in spmd.in_shardings)
    assert len(cut(spmd.inputs()[0], turned[0])) == 4
    with pytest.raises(ShardingError, match="layout at its boundary"):
        annotated(spmd.plan.annotated, turned, spmd.out_shardings)


def test_collectives_beside_a_manual_computation_are_left_out_of_what_xla_partitions() -> None:
    explicit = _spmd().module("explicit")
    assert "sdy.manual_computation" in explicit
    assert "sdy.all_reduce" in explicit
    spmd = load(explicit).plan().partition()
    assert spmd.verify().ok
    left = annotated(spmd.plan.annotated, spmd.in_shardings, spmd.out_shardings)
    assert "sdy.all_reduce" not in {op.name for op in left.walk()}
    assert not any(sharding.partial for sharding in left.different_shardings)


def test_reshards_edges_and_calls_beside_a_manual_computation_are_verified() -> None:
    spmd = load("""
    sdy.mesh @mesh = <["x"=2]>
    func.func private @f(%a: tensor<8x8xf32>, %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>})
        -> tensor<8x8xf32> {
      %0 = stablehlo.add %a, %b : tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }
    func.func @main(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<8x8xf32> {
      %0 = func.call @f(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %1 = sdy.reshard %0 <@mesh, [{}, {"x"}]> : tensor<8x8xf32>
      %2 = stablehlo.optimization_barrier %1 : tensor<8x8xf32>
      %3 = sdy.data_flow_edge %2 : tensor<8x8xf32>
      %4 = sdy.manual_computation(%3) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
          manual_axes={"x"} (%a: tensor<4x8xf32>) {
        %5 = stablehlo.negate %a : tensor<4x8xf32>
        sdy.return %5 : tensor<4x8xf32>
      } : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %4 : tensor<8x8xf32>
    }""").plan()
    assert spmd.partition().verify().ok
