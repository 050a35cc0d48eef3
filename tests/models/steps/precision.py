"""Steps in narrow types."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.models.steps.layers import adam_from_zero, descend
from tests.models.steps.optimizers import BATCH, PARAMS, adam_leaf, each, loss_of
from tests.models.steps.step import array, step

Tree = Any


def cast(tree: Tree, dtype: Any) -> Tree:
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


@step(PARAMS, {"m": PARAMS, "v": PARAMS}, BATCH)
def bfloat16_inside(params: Tree, state: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        return loss_of(cast(p, jnp.bfloat16), cast(batch, jnp.bfloat16)).astype(jnp.float32)

    value, grads = jax.value_and_grad(loss)(params)
    return (*each(adam_leaf, 3, params, state["m"], state["v"], grads), value)


@step({k: array(*v.shape, dtype=jnp.bfloat16) for k, v in PARAMS.items()}, BATCH)
def bfloat16_all_through(params: Tree, batch: Tree) -> Any:
    return adam_from_zero(params, jax.grad(lambda p: loss_of(p, cast(batch, jnp.bfloat16)))(params))


@step(PARAMS, {"scale": array()}, BATCH)
def float16_with_loss_scale(params: Tree, state: Tree, batch: Tree) -> Any:
    scale = 1024.0 * (1 + jnp.abs(state["scale"]))

    def loss(p: Tree) -> Any:
        return loss_of(cast(p, jnp.float16), cast(batch, jnp.float16)).astype(jnp.float32) * scale

    grads = jax.tree.map(lambda g: g / scale, jax.grad(loss)(params))
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads)]))
    moved = descend(params, grads)
    return jax.tree.map(lambda new, old: jnp.where(finite, new, old), moved, params), finite, scale


@step({"w1": array(16, 32), "w2": array(32, 16)}, {"x": array(8, 16)})
def fake_quantization(params: Tree, batch: Tree) -> Any:
    """Rounding to steps of 1/127 of the largest, with a straight-through gradient."""

    def quantized(x: Any) -> Any:
        step = jnp.max(jnp.abs(x)) / 127
        return x + jax.lax.stop_gradient(jnp.round(x / step) * step - x)

    def loss(p: Tree) -> Any:
        h = jax.nn.relu(quantized(batch["x"]) @ quantized(p["w1"]))
        return jnp.mean((quantized(h) @ quantized(p["w2"])) ** 2)

    return descend(params, jax.grad(loss)(params))


@step({"w1": array(16, 32), "w2": array(32, 16)}, {"x": array(8, 16)})
def int8_weights(params: Tree, batch: Tree) -> Any:
    """Integers made of floats, summed as integers."""

    def integers(x: Any) -> Any:
        step = jnp.max(jnp.abs(x)) / 127
        return jnp.round(x / step).astype(jnp.int8), step

    (a, s), (b, t) = integers(batch["x"]), integers(params["w1"])
    h = jax.lax.dot(a, b, preferred_element_type=jnp.int32)
    return h, a, h.astype(jnp.float32) * s * t @ params["w2"]


@step({"w": array(16, 16, dtype=jnp.complex64)}, {"x": array(8, 16)})
def complex_weights(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        return jnp.mean(jnp.abs(batch["x"].astype(jnp.complex64) @ p["w"]) ** 2)

    return descend(params, jax.grad(loss)(params))
