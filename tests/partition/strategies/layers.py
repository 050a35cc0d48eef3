"""Layers of transformers as users write them, and what a user says of how activations lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from shardwright.mesh import Mesh
from shardwright.program import Spmd, from_jax

__all__ = [
    "F32",
    "Keep",
    "as_it_is",
    "attention",
    "float32",
    "keep_on",
    "layer_norm",
    "partitioned",
    "perceptron",
    "sent",
]

Tree: TypeAlias = Any
Keep: TypeAlias = Callable[..., Any]
"""`keep(x, "data", None)`: the array, which is to lie so."""

F32 = 4
"""Bytes of an element."""


def keep_on(mesh: Mesh) -> Keep:
    """JAX's `with_sharding_constraint` on a mesh."""
    sizes = mesh.sizes
    abstract = AbstractMesh(tuple(sizes.values()), tuple(sizes), (AxisType.Auto,) * len(sizes))

    def keep(x: Any, *spec: Any) -> Any:
        return lax.with_sharding_constraint(x, NamedSharding(abstract, PartitionSpec(*spec)))

    return keep


def as_it_is(x: Any, *spec: Any) -> Any:
    """No word on how it lies."""
    return x


def float32(*shape: int) -> Any:
    """The shape of an argument."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    """Normalizes the last dimension."""
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-6) * scale + bias


def attention(x: Any, p: Tree, keep: Keep = as_it_is) -> Any:
    """Causal attention; `keep` says how queries, keys and values lie. [batch, length, width] of both."""
    q, k, v = (keep(jnp.einsum("bsd,dnk->bsnk", x, p[name])) for name in "qkv")
    scores = jnp.einsum("bsnk,btnk->bnst", q, k) / q.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), -1)
    return jnp.einsum("bsnk,nkd->bsd", jnp.einsum("bnst,btnk->bsnk", weights, v), p["o"])


def perceptron(x: Any, p: Tree, keep: Keep = as_it_is) -> Any:
    """Two layers; `keep` says how what is between them lies."""
    return jax.nn.gelu(keep(x @ p["up"])) @ p["down"]


def partitioned(function: Callable[..., Any], *arguments: Any, mesh: Mesh, args: Any) -> Spmd:
    """The program that every device runs, all choices left to the compiler."""
    return from_jax(function, *arguments).shard(mesh, args=args).partition(effort="fast")


def sent(spmd: Spmd) -> dict[str, tuple[int, float]]:
    """How often collectives of each kind run, and the bytes that a device sends in them all."""
    return {kind: (one.executed, one.executed_bytes) for kind, one in spmd.traffic.kinds.items()}
