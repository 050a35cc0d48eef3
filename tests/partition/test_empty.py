"""Dimensions of size 0: there is nothing in them to split, and any sharding of them, as JAX writes, is right."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import shardwright as sw

Function = Callable[..., Any]


def _reductions(a: Any, b: Any) -> Any:
    return a.sum(0), jnp.max(a, 0, initial=-3.0), jnp.prod(a), jnp.cumsum(a, 0), lax.top_k(a, 2), b.sum()


def _products(a: Any, b: Any) -> Any:
    return b[:, :0] @ a, a @ b, jax.grad(lambda b: jnp.sum((a @ b) ** 2))(b), jnp.einsum("ij,kj->ik", a, a)


def _shapes(a: Any, b: Any) -> Any:
    return (
        a.reshape(0, 4, 2) + 1,
        a.reshape(4, 0) * 2,
        jnp.pad(a, ((2, 2), (0, 0))),
        jnp.concatenate([a, b, a]),
        a.T,
        a[::-1],
        jnp.broadcast_to(a[None], (4, 0, 8)) * 2,
        b[3:3] * 2,
        jnp.split(b, [0], 0),
    )


def _indices(a: Any, b: Any) -> Any:
    rows = a[:, 0].astype(int)
    return (
        jnp.take(b, rows, axis=0, mode="clip"),
        b.at[rows].add(a),
        lax.dynamic_update_slice(b, a, (2, 0)),
        jnp.sort(a, 0),
        jnp.argsort(a, 1),
    )


def _others(a: Any, b: Any) -> Any:
    return (
        lax.scan(lambda carry, x: (carry + x.sum(), x * 2), 0.0, a),
        lax.reduce_window(a, 0.0, lax.add, (1, 2), (1, 1), "SAME"),
        jnp.linalg.cholesky(a.reshape(0, 2, 4)[:, :, :2]),
        jnp.fft.fft(a).real + b.sum(),
    )


@pytest.mark.parametrize("spec", [sw.P("x", "y"), sw.P(("x", "y")), sw.P(None, "x")], ids=str)
@pytest.mark.parametrize("function", [_reductions, _products, _shapes, _indices, _others])
def test_what_is_empty_is_split_as_anything_else(function: Function, spec: sw.P) -> None:
    empty, full = jax.ShapeDtypeStruct((0, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.float32)
    program = sw.from_jax(function, empty, full)
    plan = program.shard(sw.Mesh(x=2, y=2), args={"a": spec, "b": spec})
    assert plan.partition().verify().ok


def test_what_propagation_writes_is_read_again() -> None:
    program = sw.from_jax(_shapes, *(jax.ShapeDtypeStruct((rows, 8), jnp.float32) for rows in (0, 8)))
    plan = program.shard(sw.Mesh(x=2, y=2), args={"a": sw.P("x", "y")})
    again = sw.load(str(plan.module()))
    assert again.shard().shardings["a"] == plan.shardings["a"]
    assert plan.shardings["a"].dims[0].axes


def test_nothing_is_exchanged_of_what_is_empty() -> None:
    """StableHLO has no all_gather along a dimension of size 0."""
    spmd = (
        sw.load("""module {
      sdy.mesh @mesh = <["x"=2]>
      func.func @main(%a: tensor<0x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<0x4xf32> {
        %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<0x4xf32>
        return %0 : tensor<0x4xf32>
      }
    }""")
        .plan()
        .partition()
    )
    local = spmd.module("local")
    assert "stablehlo.all_gather" not in local
    assert sw.load(local).arguments


def test_offsets_of_what_nobody_reads_are_no_matter() -> None:
    spmd = (
        sw.load("""module {
      mesh.mesh @mesh(shape = 6x2) {axis_names = ["x", "y"]}
      func.func @main(%a: tensor<4x3xi32>, %b: tensor<2x4xf32>) -> tensor<2x4xf32> {
        %0 = stablehlo.or %a, %a : tensor<4x3xi32>
        %s = mesh.sharding @mesh split_axes = [[], [1]] : !mesh.sharding
        %1 = mesh.shard %0 to %s : tensor<4x3xi32>
        return %b : tensor<2x4xf32>
      }
    }""")
        .plan()
        .partition()
    )
    assert spmd.verify().ok
