"""A mixture of experts, each of them on a device of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan, from_jax
from tests.models.large.common import array

__all__ = ["EXPERTS", "FEW_EXPERTS", "Sizes", "layer", "parameters", "training"]

Tree = Any


class Sizes(NamedTuple):
    """How large it is; `places` are those that an expert has for tokens of a sequence."""

    layers: int
    width: int
    hidden: int
    experts: int
    batch: int
    length: int
    places: int


EXPERTS = Sizes(4, 2048, 4096, 8, 16, 1024, 512)
FEW_EXPERTS = Sizes(1, 16, 32, 8, 8, 16, 8)


def layer(x: Any, layer: Tree, places: int) -> Any:
    """Each token goes to two experts, as far as these have places."""
    batch, length, _ = x.shape
    experts = layer["router"].shape[1]
    wide = x.astype(jnp.float32)
    normed = (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * layer["norm"]
    shares, chosen = lax.top_k(jax.nn.softmax(normed.astype(jnp.float32) @ layer["router"]), 2)
    which = jax.nn.one_hot(chosen, experts)
    order = jnp.cumsum(which.reshape(batch, length * 2, experts), 1).reshape(which.shape) - 1
    kept = (which * (order < places))[..., None] * jax.nn.one_hot(order.astype(jnp.int32), places)
    sent = jnp.einsum("btkec->btec", kept).astype(x.dtype)
    came = jnp.einsum("btk,btkec->btec", shares, kept).astype(x.dtype)
    inside = jnp.einsum("btec,btd->ebcd", sent, normed)
    hidden = jax.nn.gelu(jnp.einsum("ebcd,edf->ebcf", inside, layer["up"]))
    return x + jnp.einsum("ebcd,btec->btd", jnp.einsum("ebcf,efd->ebcd", hidden, layer["down"]), came)


def parameters(sizes: Sizes) -> Tree:
    """Of a layer."""
    wide, hidden, experts = sizes.width, sizes.hidden, sizes.experts
    return {
        "router": array(wide, experts, dtype=jnp.float32),
        "norm": array(wide),
        "up": array(experts, wide, hidden),
        "down": array(experts, hidden, wide),
    }


def training(mesh: Mesh, sizes: Sizes) -> Plan:
    """A training step, batches and experts over `data`."""

    def loss(params: Tree, x: Any) -> Any:
        for one in params:
            x = layer(x, one, sizes.places)
        return jnp.mean(x.astype(jnp.float32) ** 2)

    def step(params: Tree, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - (1e-4 * g).astype(p.dtype), params, grads), value

    params = [parameters(sizes)] * sizes.layers
    program = from_jax(step, params, array(sizes.batch, sizes.length, sizes.width))
    split = [name for name in program.arguments if name.endswith(("/up", "/down"))]
    return program.shard(mesh, dict.fromkeys(split, "data,-,-") | {"x": "data,-,-"})
