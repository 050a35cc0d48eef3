"""An encoder and a decoder of sequences, as they are trained to translate."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import (
    BIASED_MEGATRON,
    Rule,
    Table,
    Tree,
    adam,
    alike,
    array,
    attention,
    attention_parameters,
    block,
    block_parameters,
    layer_norm,
    next_token_loss,
    sharded,
)

__all__ = ["FEW_TRANSLATED", "MEGATRON", "TRANSLATED", "Sizes", "training"]

MEGATRON: Table = {**BIASED_MEGATRON, "tokens": ("model", None)}
_NEAR = 16
"""Distances in each direction that have a bias of their own, the last of them for all beyond."""


class Sizes(NamedTuple):
    """How large it is; `source` and `target` are lengths."""

    layers: int
    width: int
    hidden: int
    heads: int
    vocabulary: int
    batch: int
    source: int
    target: int


TRANSLATED = Sizes(6, 1024, 4096, 16, 32128, 64, 512, 128)
FEW_TRANSLATED = Sizes(1, 16, 32, 8, 64, 8, 16, 8)


def _parameters(sizes: Sizes) -> Tree:
    wide, stack = sizes.width, (sizes.layers,)
    blocks = block_parameters(wide, sizes.hidden, stack)
    across = {
        "across": attention_parameters(wide, stack, biases=False),
        "across_scale": array(*stack, wide),
        "across_shift": array(*stack, wide),
    }
    return {
        "tokens": array(sizes.vocabulary, wide),
        "distances": array(2 * _NEAR, sizes.heads, dtype=jnp.float32),
        "encoder": blocks,
        "decoder": blocks | across,
        "last_scale": array(wide),
        "last_shift": array(wide),
    }


def _encoded(params: Tree, source: Any, heads: int) -> Any:
    places = jnp.arange(source.shape[1])
    apart = places[None] - places[:, None]
    buckets = jnp.clip(jnp.abs(apart), 0, _NEAR - 1) + _NEAR * (apart > 0)
    bias = params["distances"][buckets].transpose(2, 0, 1)[None]
    layer = jax.checkpoint(lambda h, one: block(h, one, heads, bias=bias))
    return lax.scan(lambda h, one: (layer(h, one), None), params["tokens"][source], params["encoder"])[0]


def _decoded(params: Tree, memory: Any, target: Any, heads: int) -> Any:
    mask = jnp.tril(jnp.ones((target.shape[1],) * 2, bool))

    @jax.checkpoint
    def layer(x: Any, one: Tree) -> Any:
        def looked_across(x: Any) -> Any:
            normed = layer_norm(x, one["across_scale"], one["across_shift"])
            return x + attention(normed, one["across"], heads, memory=memory)

        return block(x, one, heads, mask=mask, between=looked_across)

    return lax.scan(lambda h, one: (layer(h, one), None), params["tokens"][target], params["decoder"])[0]


def _loss(params: Tree, batch: Tree, heads: int) -> Any:
    memory = _encoded(params, batch["source"], heads)
    x = _decoded(params, memory, batch["target"], heads)
    logits = layer_norm(x, params["last_scale"], params["last_shift"]) @ params["tokens"].T
    return next_token_loss(logits.astype(jnp.float32), batch["target"])


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`."""
    params = _parameters(sizes)
    lengths = {"source": sizes.source, "target": sizes.target}
    batch = {name: array(sizes.batch, length, dtype=jnp.int32) for name, length in lengths.items()}
    step = adam(partial(_loss, heads=sizes.heads))
    return sharded(step, (params, alike(params), alike(params), batch), mesh, table, {"batch": ("data", None)})
