"""Kinds of layers, each with a gradient step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.steps.optimizers import adam_leaf, each
from tests.models.steps.step import array, ints, step, xent

Tree = Any
LR = 1e-2


def descend(params: Tree, grads: Tree) -> Tree:
    return jax.tree.map(lambda p, g: p - LR * g, params, grads)


def adam_from_zero(params: Tree, grads: Tree) -> Tree:
    zeros = jax.tree.map(jnp.zeros_like, params)
    return each(adam_leaf, 3, params, zeros, zeros, grads)


@step(
    {"w": array(16, 32), "b": array(32), "scale": array(32), "out": array(32, 8)},
    {"mean": array(32), "var": array(32)},
    {"x": array(8, 16), "y": ints(8)},
)
def batch_norm(params: Tree, state: Tree, batch: Tree) -> Any:
    """The bias before the norm has no gradient: what comes out of it is rounding alone, and Adam makes it a step."""

    def loss(p: Tree) -> Any:
        h = batch["x"] @ p["w"] + p["b"]
        mean, var = h.mean(axis=0), h.var(axis=0)
        h = jax.nn.relu((h - mean) * lax.rsqrt(var + 1e-5) * p["scale"])
        return xent(h @ p["out"], batch["y"]), (mean, var)

    (value, (mean, var)), grads = jax.value_and_grad(loss, has_aux=True)(params)
    state = {"mean": 0.9 * state["mean"] + 0.1 * mean, "var": 0.9 * state["var"] + 0.1 * var}
    return adam_from_zero(params, grads), state, value


@step({"scale": array(16), "bias": array(16), "w": array(16, 16)}, {"x": array(8, 16)})
def layer_norm(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        x = batch["x"]
        h = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]
        return jnp.mean((h @ p["w"]) ** 2)

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"scale": array(16), "w": array(16, 16)}, {"x": array(4, 6, 16)})
def rms_norm(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        x = batch["x"]
        return jnp.mean(jnp.tanh(x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"] @ p["w"]) ** 2)

    return adam_from_zero(params, jax.grad(loss)(params))


@step(
    {"k1": array(3, 3, 4, 8), "b1": array(8), "k2": array(3, 3, 8, 8), "w": array(8, 10)},
    {"x": array(4, 8, 8, 4), "y": ints(4)},
)
def convolutions(params: Tree, batch: Tree) -> Any:
    def conv(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def loss(p: Tree) -> Any:
        h = conv(batch["x"], p["k1"]) + p["b1"]
        h = (h - h.mean((0, 1, 2))) * lax.rsqrt(h.var((0, 1, 2)) + 1e-5)
        h = lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return xent(jax.nn.relu(conv(h, p["k2"])).mean((1, 2)) @ p["w"], batch["y"])

    return adam_from_zero(params, jax.grad(loss)(params))


ATTENTION = {name: array(16, 16) for name in ("q", "k", "v", "o")}


def attend(p: Tree, x: Any, mask: Any) -> Any:
    q, k, v = (jnp.reshape(x @ p[name], (*x.shape[:2], 4, 4)) for name in "qkv")
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 2.0
    weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ p["o"]


@step(ATTENTION, {"x": array(4, 8, 16)})
def causal_attention(params: Tree, batch: Tree) -> Any:
    mask = jnp.tril(jnp.ones((8, 8), bool))
    return descend(params, jax.grad(lambda p: jnp.mean(attend(p, batch["x"], mask) ** 2))(params))


@step(ATTENTION, {"x": array(4, 8, 16), "mask": array(4, 8, dtype=jnp.bool_)})
def masks_with_infinities(params: Tree, batch: Tree) -> Any:
    """Padded keys; scores go out with their infinities."""
    mask = batch["mask"][:, None, None, :] | jnp.eye(8, dtype=bool)
    x = batch["x"]
    scores = jnp.where(mask, jnp.einsum("btd,bsd->bts", x @ params["q"], x @ params["k"])[:, None], -jnp.inf)
    grads = jax.grad(lambda p: jnp.mean(attend(p, x, mask) ** 2))(params)
    return adam_from_zero(params, grads), scores, scores.max(-1), jax.nn.log_softmax(scores)


@step(ATTENTION, {"x": array(4, 8, 16), "mask": array(4, 8, dtype=jnp.bool_)})
def rows_that_attend_to_nothing(params: Tree, batch: Tree) -> Any:
    """A row of minus infinities has a softmax of NaNs, which is what comes out."""
    mask = jnp.broadcast_to(batch["mask"][:, None, :, None], (4, 1, 8, 8))
    return attend(params, batch["x"], mask), jnp.nan_to_num(attend(params, batch["x"], mask))


@step({"embed": array(32, 16), "out": array(16, 32)}, {"ids": ints(4, 8), "next": ints(4, 8)})
def embedding(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        logits = p["embed"][batch["ids"]] @ p["out"]
        return xent(logits.reshape(-1, 32), batch["next"].reshape(-1))

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"w": array(16, 16)}, {"nodes": array(12, 16), "segments": ints(12)})
def empty_segments(params: Tree, batch: Tree) -> Any:
    """Sums, means and maxima by segment; a segment without nodes has a maximum of minus infinity."""
    messages = jnp.tanh(batch["nodes"] @ params["w"])
    total = jax.ops.segment_sum(messages, batch["segments"], 10)
    count = jax.ops.segment_sum(jnp.ones(12), batch["segments"], 10)
    grads = jax.grad(lambda p: jax.ops.segment_sum(batch["nodes"] @ p["w"], batch["segments"], 10).std())(params)
    return total, total / count[:, None], jax.ops.segment_max(messages, batch["segments"], 10), grads


@step({"gate": array(16, 4), "up": array(4, 16, 32), "down": array(4, 32, 16)}, {"x": array(16, 16)})
def mixture_of_experts(params: Tree, batch: Tree) -> Any:
    """The two best of four experts for each token."""

    def loss(p: Tree) -> Any:
        gates = jax.nn.softmax(batch["x"] @ p["gate"])
        best, which = lax.top_k(gates, 2)
        weights = (jax.nn.one_hot(which, 4) * best[..., None]).sum(1)
        h = jax.nn.silu(jnp.einsum("td,edf->tef", batch["x"], p["up"]))
        return jnp.mean(jnp.einsum("tef,efd,te->td", h, p["down"], weights) ** 2), which

    grads, which = jax.grad(loss, has_aux=True)(params)
    return descend(params, grads), which


@step({"w": array(16, 64), "u": array(16, 64), "b": array(64)}, {"x": array(10, 8, 16)})
def lstm(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x @ p["w"] + h @ p["u"] + p["b"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((8, 16))
        return jnp.mean(lax.scan(cell, (zeros, zeros), batch["x"])[1] ** 2)

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"w1": array(16, 32), "w2": array(32, 16)}, {"x": array(8, 16), "seed": ints()})
def dropout(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        keep = jax.random.bernoulli(jax.random.key(batch["seed"]), 0.7, (8, 32))
        return jnp.mean((jnp.where(keep, jax.nn.relu(batch["x"] @ p["w1"]) / 0.7, 0) @ p["w2"]) ** 2)

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"v": array(16, 32), "g": array(32), "out": array(32, 8)}, {"x": array(8, 16), "y": ints(8)})
def weight_norm(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        w = p["v"] / jnp.linalg.norm(p["v"], axis=0) * p["g"]
        return xent(jax.nn.relu(batch["x"] @ w) @ p["out"], batch["y"])

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"w1": array(16, 32), "w2": array(32, 16)}, {"x": array(8, 16)})
def ranks_of_activations(params: Tree, batch: Tree) -> Any:
    """Integers that depend on comparisons of sums."""
    h = batch["x"] @ params["w1"] @ params["w2"]
    return jnp.argsort(h, axis=-1), jnp.argmax(h, axis=0), jnp.sort(h, axis=0), lax.top_k(h, 4), (h > 0).sum()
