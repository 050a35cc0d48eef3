"""Llamas: training steps, layer by layer or as a scan, and decoding, sharded as people shard them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import Axes, Table, Tree, alike, array, next_token_loss, rms_norm, sharded

__all__ = [
    "BOTH",
    "FSDP",
    "LLAMA",
    "MEGATRON",
    "SMALL",
    "Sizes",
    "caches",
    "decoded",
    "decoding",
    "layer_and_cache",
    "logits_of",
    "loss",
    "parameters",
    "training",
]


class Sizes(NamedTuple):
    """How large it is; `groups` are the heads of keys and values."""

    layers: int
    width: int
    hidden: int
    heads: int
    groups: int
    vocabulary: int
    batch: int
    length: int


LLAMA = Sizes(4, 4096, 14336, 32, 8, 32000, 16, 2048)
SMALL = Sizes(2, 32, 48, 8, 8, 64, 8, 8)

FSDP: Table = dict.fromkeys(("wq", "wk", "wv", "wo", "gate", "up", "down", "tokens", "logits"), ("data", None)) | {
    "norm": ("data",),
    "before_mlp": ("data",),
    "last": ("data",),
}
MEGATRON: Table = {
    **dict.fromkeys(("wq", "wk", "wv", "gate", "up", "logits"), (None, "model")),
    **dict.fromkeys(("wo", "down", "tokens"), ("model", None)),
}
BOTH: Table = {
    **dict.fromkeys(("wq", "wk", "wv", "gate", "up", "logits"), ("data", "model")),
    **dict.fromkeys(("wo", "down", "tokens"), ("model", "data")),
}


def parameters(sizes: Sizes, scan: bool) -> Tree:
    """Of all layers, stacked for a scan."""
    wide, hidden, shared = sizes.width, sizes.hidden, sizes.width // sizes.heads * sizes.groups
    shapes = {
        "wq": (wide, wide),
        "wk": (wide, shared),
        "wv": (wide, shared),
        "wo": (wide, wide),
        "gate": (wide, hidden),
        "up": (wide, hidden),
        "down": (hidden, wide),
        "norm": (wide,),
        "before_mlp": (wide,),
    }
    stack = (sizes.layers,) if scan else ()
    layer = {name: array(*stack, *shape) for name, shape in shapes.items()}
    ends = {"tokens": (sizes.vocabulary, wide), "logits": (wide, sizes.vocabulary), "last": (wide,)}
    made = {name: array(*shape) for name, shape in ends.items()}
    return {**made, "layers": layer if scan else [layer] * sizes.layers}


def _turned(x: Any) -> Any:
    """By positions, as rotary embeddings have it: batch, length, heads, head size."""
    length, size = x.shape[1], x.shape[-1]
    angles = jnp.arange(length, dtype=jnp.float32)[:, None] * 1e4 ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    even, odd = x[..., ::2].astype(jnp.float32), x[..., 1::2].astype(jnp.float32)
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape).astype(x.dtype)


def _attended(query: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Heads in groups: query of batch, length, groups, heads, head size."""
    scores = jnp.einsum("btkgh,bskh->bkgts", query, keys).astype(jnp.float32) / math.sqrt(query.shape[-1])
    shares = jax.nn.softmax(jnp.where(mask, scores, -1e30), -1).astype(query.dtype)
    mixed = jnp.einsum("bkgts,bskh->btkgh", shares, values)
    return mixed.reshape(*mixed.shape[:2], -1)


def _grouped(x: Any, groups: int, size: int) -> Any:
    return x.reshape(*x.shape[:2], groups, -1, size)


def _mlp(x: Any, layer: Tree) -> Any:
    normed = rms_norm(x, layer["before_mlp"])
    return (jax.nn.silu(normed @ layer["gate"]) * (normed @ layer["up"])) @ layer["down"]


def layer_and_cache(x: Any, layer: Tree, sizes: Sizes) -> tuple[Any, Tree]:
    """What comes out of a layer, and its keys and values."""
    size = sizes.width // sizes.heads
    normed = rms_norm(x, layer["norm"])
    query, keys, values = ((normed @ layer[name]).reshape(*x.shape[:2], -1, size) for name in ("wq", "wk", "wv"))
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    query, keys = _grouped(_turned(query), sizes.groups, size), _turned(keys)
    x = x + _attended(query, keys, values, mask) @ layer["wo"]
    return x + _mlp(x, layer), {"k": keys, "v": values}


def logits_of(x: Any, params: Tree) -> Any:
    """Of each token, after what the last layer gives."""
    return (rms_norm(x, params["last"]) @ params["logits"]).astype(jnp.float32)


def loss(params: Tree, tokens: Any, sizes: Sizes) -> Any:
    """How unlikely each next token is; layers are recomputed on the way back."""
    layer = jax.checkpoint(lambda x, one: layer_and_cache(x, one, sizes)[0])
    x = params["tokens"][tokens]
    if isinstance(params["layers"], list):
        for one in params["layers"]:
            x = layer(x, one)
    else:
        x, _ = lax.scan(lambda h, one: (layer(h, one), None), x, params["layers"])
    return next_token_loss(logits_of(x, params), tokens)


def _step(params: Tree, first: Tree, second: Tree, tokens: Any, *, sizes: Sizes) -> Any:
    """A step of Adam in float32, gradients clipped by their norm."""
    value, found = jax.value_and_grad(loss)(params, tokens, sizes)
    grads = jax.tree.map(lambda g: g.astype(jnp.float32), found)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return (p.astype(jnp.float32) - 1e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype)

    return jax.tree.map(moved, params, first, second), first, second, value


def training(mesh: Mesh, table: Table, sizes: Sizes, scan: bool = False, tokens: Axes = ("data", None)) -> Plan:
    """A training step, its moments as parameters lie, its batch over `data` unless `tokens` has it otherwise."""
    params = parameters(sizes, scan)
    moments = alike(params)
    batch = array(sizes.batch, sizes.length, dtype=jnp.int32)
    return sharded(partial(_step, sizes=sizes), (params, moments, moments, batch), mesh, table, {"tokens": tokens})


def caches(sizes: Sizes) -> Tree:
    """Of keys and values of each layer: batch, length, groups, head size."""
    shape = (sizes.batch, sizes.length, sizes.groups, sizes.width // sizes.heads)
    return [{name: array(*shape) for name in "kv"}] * sizes.layers


def decoded(params: Tree, cache: Tree, tokens: Any, place: Any, sizes: Sizes) -> tuple[Any, Tree]:
    """The next token of each sequence, and the cache with these at their place."""
    size = sizes.width // sizes.heads
    x, made = params["tokens"][tokens][:, None], []
    for layer, before in zip(params["layers"], cache, strict=True):
        normed = rms_norm(x, layer["norm"])
        row = {name: (normed @ layer[f"w{name}"]).reshape(sizes.batch, 1, sizes.groups, size) for name in "kv"}
        now = {name: lax.dynamic_update_slice(before[name], row[name], (0, place, 0, 0)) for name in "kv"}
        query = _grouped(normed @ layer["wq"], sizes.groups, size)
        x = x + _attended(query, now["k"], now["v"], jnp.arange(sizes.length) <= place) @ layer["wo"]
        x = x + _mlp(x, layer)
        made.append(now)
    return jnp.argmax(logits_of(x, params)[:, 0], -1), made


def decoding(mesh: Mesh, table: Table, cache: Axes, sizes: Sizes) -> Plan:
    """The next token of each sequence, with keys and values of those before in a cache."""

    def step(params: Tree, cache: Tree, tokens: Any, place: Any) -> Any:
        return decoded(params, cache, tokens, place, sizes)

    tokens, place = array(sizes.batch, dtype=jnp.int32), array(dtype=jnp.int32)
    arguments = (parameters(sizes, scan=False), caches(sizes), tokens, place)
    return sharded(step, arguments, mesh, table, {"cache": cache, "tokens": cache[:1]})
