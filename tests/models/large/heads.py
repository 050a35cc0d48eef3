"""A transformer whose heads no number of devices divides: 25 of 64, as those of GPT-2 XL."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

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
    block,
    block_parameters,
    layer_norm,
    next_token_loss,
    sharded,
)

__all__ = ["FEW_HEADS", "MEGATRON", "ODD_HEADS", "Sizes", "training"]

MEGATRON: Table = {**BIASED_MEGATRON, "tokens": ("model", None)}


class Sizes(NamedTuple):
    """How large it is; rows of tokens are padded to a multiple of 128, heads are not."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    length: int


ODD_HEADS = Sizes(4, 1600, 25, 50304, 32, 1024)
FEW_HEADS = Sizes(2, 40, 5, 64, 8, 8)


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, batches over `data`, layers recomputed on the way back."""
    wide = sizes.width
    params = {
        "tokens": array(sizes.vocabulary, wide),
        "places": array(sizes.length, wide),
        "layers": [block_parameters(wide, 4 * wide)] * sizes.layers,
        "last": array(wide),
        "last_shift": array(wide),
    }

    def loss(params: Tree, tokens: Any) -> Any:
        mask = jnp.tril(jnp.ones((sizes.length, sizes.length), bool))
        layer = jax.checkpoint(lambda x, one: block(x, one, sizes.heads, mask=mask))
        x = params["tokens"][tokens] + params["places"]
        for one in params["layers"]:
            x = layer(x, one)
        x = layer_norm(x, params["last"], params["last_shift"])
        return next_token_loss((x @ params["tokens"].T).astype(jnp.float32), tokens)

    moments, batch = alike(params), array(sizes.batch, sizes.length, dtype=jnp.int32)
    return sharded(adam(loss), (params, moments, moments, batch), mesh, table, {"batch": ("data", None)})
