"""Kinds of attention and the losses behind them: heads, sequences, vocabularies split."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import GRID, LINE, ODD, Split, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints

Tree = Any
HEADS = {"q": array(32, 32), "k": array(32, 16), "v": array(32, 16), "o": array(32, 32)}
BY_HEADS: Split = {
    "params/q": "-,model",
    "params/k": "-,model",
    "params/v": "-,model",
    "params/o": "model,-",
}


def rotated(x: Any, start: Any = 0) -> Any:
    """Rotary places. [batch, time, head, size]."""
    half = x.shape[-1] // 2
    angle = (start + jnp.arange(x.shape[1]))[:, None] * 1e4 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


@net(HEADS, {"x": array(4, 16, 32), "y": array(4, 16, 32)}, args={**BY_HEADS, "batch": "data,-,-"})
def grouped_queries(params: Tree, batch: Tree) -> Any:
    """A training step: eight heads of queries to four of keys, with rotary places."""

    def loss(p: Tree) -> Any:
        q, k, v = ((batch["x"] @ p[name]).reshape(4, 16, -1, 4) for name in "qkv")
        q = rotated(q).reshape(4, 16, 4, 2, 4)
        scores = jnp.einsum("btgrd,bsgd->bgrts", q, rotated(k)) / 2
        weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((16, 16), bool)), scores, -1e9))
        out = jnp.einsum("bgrts,bsgd->btgrd", weights, v).reshape(4, 16, 32) @ p["o"]
        return jnp.mean((out - batch["y"]) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return descend(params, grads), value


QKV = (array(4, 32, 4, 8),) * 3


@net(*QKV, args={"q": "data,-,model,-", "k": "data,-,model,-", "v": "data,-,model,-"})
def flash_attention(q: Any, k: Any, v: Any) -> Any:
    """Blocks of keys in a loop, maxima and sums carried; and its gradient."""

    def loss(q: Any, k: Any, v: Any) -> Any:
        def block(carry: Any, kv: Any) -> Any:
            top, total, out = carry
            scores = jnp.einsum("bthd,bshd->bhts", q, kv[0]) / 8**0.5
            new = jnp.maximum(top, scores.max(-1))
            weights, fade = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
            out = out * fade[..., None] + jnp.einsum("bhts,bshd->bhtd", weights, kv[1])
            return (new, total * fade + weights.sum(-1), out), None

        start = jnp.full((4, 4, 32), -1e9), jnp.zeros((4, 4, 32)), jnp.zeros((4, 4, 32, 8))
        blocks = tuple(a.reshape(4, 4, 8, 4, 8).swapaxes(0, 1) for a in (k, v))
        (_, total, out), _ = lax.scan(jax.checkpoint(block), start, blocks)
        return jnp.sum(jnp.sin(out / total[..., None]))

    return jax.value_and_grad(loss, (0, 1, 2))(q, k, v)


@net(
    *(array(8, 2, 8, 8),) * 3,
    args={"q": "data,-,-,-", "k": "data,-,-,-", "v": "data,-,-,-"},
    mesh=LINE,
)
def ring_attention(q: Any, k: Any, v: Any) -> Any:
    """Blocks of keys go round by a roll of the dimension that is split. [block, head, token, size]."""

    def turn(carry: Any, _: Any) -> Any:
        k, v, top, total, out = carry
        scores = jnp.einsum("nhtd,nhsd->nhts", q, k) / 8**0.5
        new = jnp.maximum(top, scores.max(-1))
        weights, fade = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
        out = out * fade[..., None] + jnp.einsum("nhts,nhsd->nhtd", weights, v)
        return (jnp.roll(k, 1, 0), jnp.roll(v, 1, 0), new, total * fade + weights.sum(-1), out), None

    start = (k, v, jnp.full((8, 2, 8), -1e9), jnp.zeros((8, 2, 8)), jnp.zeros_like(q))
    (_, _, _, total, out), _ = lax.scan(turn, start, length=8)
    return out / total[..., None]


@net(*(array(2, 64, 4, 8),) * 3, args={"q": "data,model,-,-", "k": "data,model,-,-", "v": "data,model,-,-"})
def sliding_window_attention(q: Any, k: Any, v: Any) -> Any:
    """Each block of sixteen attends to itself and the one before; the sequence is split."""

    def blocks(a: Any) -> Any:
        return a.reshape(2, 4, 16, 4, 8)

    def before(a: Any) -> Any:
        return jnp.pad(a, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))[:, :-1]

    kk, vv = (jnp.concatenate([before(blocks(a)), blocks(a)], 2) for a in (k, v))
    scores = jnp.einsum("bnthd,bnshd->bnhts", blocks(q), kk) / 8**0.5
    place = jnp.arange(16)[:, None] + 16 - jnp.arange(32)
    inside = (place >= 0) & (place < 16)
    first = jnp.arange(4)[:, None, None] * 16 + jnp.arange(32) >= 16
    weights = jax.nn.softmax(jnp.where((inside & first)[:, None], scores, -1e9))
    return jnp.einsum("bnhts,bnshd->bnthd", weights, vv).reshape(2, 64, 4, 8)


@net(
    *QKV,
    array(4, 32, dtype=jnp.bool_),
    args={"q": "data,model,-,-", "k": "data,model,-,-", "v": "data,model,-,-", "mask": "data,model"},
)
def attention_over_split_keys(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Queries and keys are split along the sequence; places are told by slopes."""
    slopes = 2.0 ** -(1.0 + jnp.arange(4))
    gap = jnp.arange(32)[:, None] - jnp.arange(32)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / 8**0.5 - slopes[:, None, None] * jnp.abs(gap)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(jnp.where(mask[:, None, None], scores, -1e9)), v)


@net(
    {"down": array(32, 8), "k": array(8, 32), "v": array(8, 32), "q": array(32, 32), "o": array(32, 32)},
    array(4, 16, 32),
    args={"params/k": "-,model", "params/v": "-,model", "params/q": "-,model", "params/o": "model,-", "x": "data,-,-"},
)
def latent_attention(params: Tree, x: Any) -> Any:
    """Keys and values from one narrow code, which is what a cache would keep."""
    code = x @ params["down"]
    code = code * lax.rsqrt(jnp.mean(code * code, -1, keepdims=True) + 1e-6)
    q, k, v = (a.reshape(4, 16, 4, 8) for a in (x @ params["q"], code @ params["k"], code @ params["v"]))
    return jax.nn.dot_product_attention(rotated(q), k, v, is_causal=True).reshape(4, 16, 32) @ params["o"], code


@net(
    {"latents": array(8, 32), "q": array(32, 32), "kv": array(16, 64), "head": array(32, 10)},
    array(4, 64, 16),
    args={"params/kv": "-,model", "x": "data,model,-"},
)
def perceiver(params: Tree, x: Any) -> Any:
    """A few learned queries read a long input that is split."""
    k, v = jnp.split(x @ params["kv"], 2, -1)
    scores = jnp.einsum("ld,bsd->bls", params["latents"] @ params["q"], k) / 32**0.5
    read = jnp.einsum("bls,bsd->bld", jax.nn.softmax(scores), v) + params["latents"]
    return read.mean(1) @ params["head"]


@net(*QKV, array(8, 32), args={"q": "data,model,-,-", "k": "data,model,-,-", "v": "data,model,-,-"})
def random_feature_attention(q: Any, k: Any, v: Any, features: Any) -> Any:
    """Kernels instead of a softmax, causal by running sums along the split sequence."""
    q, k = (jnp.exp(a / 3 @ features - jnp.sum(a * a, -1, keepdims=True) / 18) for a in (q, k))
    up = jnp.cumsum(jnp.einsum("bthf,bthd->bthfd", k, v), 1)
    down = jnp.cumsum(k, 1)
    return jnp.einsum("bthf,bthfd->bthd", q, up) / jnp.einsum("bthf,bthf->bth", q, down)[..., None]


@net(
    {"embed": array(96, 16), "out": array(16, 96)},
    {"ids": ints(4, 16), "next": ints(4, 16)},
    args={"params/embed": "model,-", "params/out": "-,model", "batch": "data,-"},
)
def split_vocabulary(params: Tree, batch: Tree) -> Any:
    """A training step with rows of the embedding and columns of the logits split: the loss sends scalars for a token."""

    def loss(p: Tree) -> Any:
        logits = jnp.tanh(p["embed"][batch["ids"]]) @ p["out"]
        shifted = logits - lax.stop_gradient(logits.max(-1, keepdims=True))
        chosen = jnp.sum(jnp.where(jnp.arange(96) == batch["next"][..., None], shifted, 0), -1)
        return jnp.mean(jnp.log(jnp.exp(shifted).sum(-1)) - chosen)

    value, grads = jax.value_and_grad(loss)(params)
    return descend(params, grads), value


@net(
    {"w1": array(32, 64), "w2": array(64, 32), "scale": array(32), "bias": array(32)},
    array(4, 16, 32),
    args={"params/w1": "-,model", "params/w2": "model,-", "x": "data,model,-"},
)
def sequence_parallel_layer(params: Tree, x: Any) -> Any:
    """Norms on tokens that are split, the layer between on features that are split."""
    h = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)
    h = jax.nn.gelu((h * params["scale"] + params["bias"]) @ params["w1"]) @ params["w2"]
    return x + h


@net(
    {"q": array(24, 24), "k": array(24, 24), "v": array(24, 24), "relative": array(19, 3)},
    array(6, 10, 24),
    args={"params/q": "-,model", "params/k": "-,model", "params/v": "-,model", "x": "data,-,-"},
    mesh=ODD,
)
def relative_places(params: Tree, x: Any) -> Any:
    """A bias for each distance, read from a table; three heads over two devices."""
    q, k, v = ((x @ params[name]).reshape(6, 10, 3, 8) for name in "qkv")
    gap = jnp.arange(10)[:, None] - jnp.arange(10) + 9
    scores = jnp.einsum("bthd,bshd->bhts", q, k) + params["relative"][gap].transpose(2, 0, 1)
    return jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(6, 10, 24)


@net(
    {"left": array(16, 16), "right": array(16, 16), "gate": array(16, 16), "bias": array(16, 4)},
    array(16, 16, 16),
    args={"pairs": "data,model,-"},
    mesh=GRID,
)
def triangle_update(params: Tree, pairs: Any) -> Any:
    """Pairs of residues: each edge from the two others of all triangles, then attention along rows."""
    left, right = jax.nn.sigmoid(pairs @ params["left"]), pairs @ params["right"]
    pairs = pairs + jnp.einsum("ikc,jkc->ijc", left, right) * jax.nn.sigmoid(pairs @ params["gate"])
    q = pairs.reshape(16, 16, 4, 4)
    scores = jnp.einsum("ijhc,ikhc->ihjk", q, q) + (pairs @ params["bias"]).transpose(2, 0, 1)[None]
    return jnp.einsum("ihjk,ikhc->ijhc", jax.nn.softmax(scores), q).reshape(16, 16, 16)
