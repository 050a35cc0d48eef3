"""Llamas: training steps, layer by layer or as a scan, and decoding, sharded as people shard them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan, from_jax

__all__ = ["BOTH", "FSDP", "LLAMA", "MEGATRON", "SMALL", "WHOLE", "Sizes", "decoding", "parameters", "training"]

Tree = Any
Table = Mapping[str, tuple[str | None, ...]]
"""Parameter → the axis of each dimension, those of a stack of layers left out."""


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

WHOLE: Table = {}
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


def parameters(sizes: Sizes, scan: bool, dtype: Any = jnp.bfloat16) -> Tree:
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
    layer = {name: jax.ShapeDtypeStruct((*stack, *shape), dtype) for name, shape in shapes.items()}
    ends = {"tokens": (sizes.vocabulary, wide), "logits": (wide, sizes.vocabulary), "last": (wide,)}
    made = {name: jax.ShapeDtypeStruct(shape, dtype) for name, shape in ends.items()}
    return {**made, "layers": layer if scan else [layer] * sizes.layers}


def _normed(x: Any, scale: Any) -> Any:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype) * scale


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
    normed = _normed(x, layer["before_mlp"])
    return (jax.nn.silu(normed @ layer["gate"]) * (normed @ layer["up"])) @ layer["down"]


def _layer(x: Any, layer: Tree, sizes: Sizes) -> Any:
    size = sizes.width // sizes.heads
    normed = _normed(x, layer["norm"])
    query, keys, values = ((normed @ layer[name]).reshape(*x.shape[:2], -1, size) for name in ("wq", "wk", "wv"))
    mask = jnp.tril(jnp.ones((x.shape[1],) * 2, bool))
    mixed = _attended(_grouped(_turned(query), sizes.groups, size), _turned(keys), values, mask)
    x = x + mixed @ layer["wo"]
    return x + _mlp(x, layer)


def _loss(params: Tree, tokens: Any, sizes: Sizes) -> Any:
    layer = jax.checkpoint(partial(_layer, sizes=sizes))
    x = params["tokens"][tokens]
    if isinstance(params["layers"], list):
        for one in params["layers"]:
            x = layer(x, one)
    else:
        x, _ = lax.scan(lambda h, one: (layer(h, one), None), x, params["layers"])
    logits = (_normed(x, params["last"]) @ params["logits"]).astype(jnp.float32)
    found = jnp.take_along_axis(jax.nn.log_softmax(logits[:, :-1]), tokens[:, 1:, None], -1)
    return -jnp.mean(found)


def _step(params: Tree, first: Tree, second: Tree, tokens: Any, *, sizes: Sizes) -> Any:
    """A step of Adam in float32, gradients clipped by their norm."""
    loss, found = jax.value_and_grad(_loss)(params, tokens, sizes)
    grads = jax.tree.map(lambda g: g.astype(jnp.float32), found)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), grads)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, grads)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return (p.astype(jnp.float32) - 1e-4 * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype)

    return jax.tree.map(moved, params, first, second), first, second, loss


def _plan(function: Any, arguments: tuple[Tree, ...], mesh: Mesh, table: Table, others: Table) -> Plan:
    """Sharded by the last part of names of parameters, and by all of those of others."""
    program = from_jax(function, *arguments)
    given = {}
    for name, type in program.arguments.items():
        whole = name.split("/")[0] if name.split("/")[0] in others else None
        dims = table.get(name.split("/")[-1]) if whole is None else others[whole]
        if dims is not None:
            axes = (None,) * (type.rank - len(dims)) + tuple(dims)
            given[name] = ",".join(axis or "-" for axis in axes)
    return program.shard(mesh, given)


def training(mesh: Mesh, table: Table, sizes: Sizes, scan: bool = False) -> Plan:
    """A training step, its batch over `data`, its moments as parameters lie."""
    params = parameters(sizes, scan)
    moments = parameters(sizes, scan, jnp.float32)
    tokens = jax.ShapeDtypeStruct((sizes.batch, sizes.length), jnp.int32)
    step = partial(_step, sizes=sizes)
    return _plan(step, (params, moments, moments, tokens), mesh, table, {"tokens": ("data", None)})


def decoding(mesh: Mesh, table: Table, cache: tuple[str | None, ...], sizes: Sizes) -> Plan:
    """The next token of each sequence, with keys and values of those before in a cache."""
    size = sizes.width // sizes.heads
    shape = (sizes.batch, sizes.length, sizes.groups, size)
    kept = [{name: jax.ShapeDtypeStruct(shape, jnp.bfloat16) for name in "kv"}] * sizes.layers

    def step(params: Tree, cache: Tree, tokens: Any, place: Any) -> Any:
        x, made = params["tokens"][tokens][:, None], []
        for layer, before in zip(params["layers"], cache, strict=True):
            normed = _normed(x, layer["norm"])
            row = {name: (normed @ layer[f"w{name}"]).reshape(*shape[:1], 1, *shape[2:]) for name in "kv"}
            now = {name: lax.dynamic_update_slice(before[name], row[name], (0, place, 0, 0)) for name in "kv"}
            query = _grouped(normed @ layer["wq"], sizes.groups, size)
            x = x + _attended(query, now["k"], now["v"], jnp.arange(sizes.length) <= place) @ layer["wo"]
            x = x + _mlp(x, layer)
            made.append(now)
        logits = (_normed(x, params["last"]) @ params["logits"]).astype(jnp.float32)
        return jnp.argmax(logits[:, 0], -1), made

    arguments = (
        parameters(sizes, scan=False),
        kept,
        jax.ShapeDtypeStruct(shape[:1], jnp.int32),
        jax.ShapeDtypeStruct((), jnp.int32),
    )
    return _plan(step, arguments, mesh, table, {"cache": cache, "tokens": cache[:1]})
