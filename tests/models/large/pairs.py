"""What proteins are folded by: a representation of each pair of residues, which triangles of them update.

After the Evoformer (Jumper et al., https://doi.org/10.1038/s41586-021-03819-2).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import (
    WHOLE,
    Tree,
    array,
    attention,
    attention_parameters,
    layer_norm,
    sgd,
    sharded,
)

__all__ = ["FEW_PAIRS", "PAIRS", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is; `length` is the number of residues."""

    blocks: int
    channels: int
    heads: int
    length: int


PAIRS = Sizes(2, 128, 4, 384)
FEW_PAIRS = Sizes(1, 16, 4, 16)


def _parameters(sizes: Sizes) -> Tree:
    wide = sizes.channels
    norm = {"scale": array(wide), "shift": array(wide)}
    weights = ("left", "left_gate", "right", "right_gate", "out", "out_gate")
    triangle = {name: array(wide, wide) for name in weights}
    triangle |= norm | {"out_scale": array(wide), "out_shift": array(wide)}
    block = {
        "outgoing": triangle,
        "incoming": triangle,
        "rows": attention_parameters(wide) | norm | {"bias": array(wide, sizes.heads)},
        "up": array(wide, 4 * wide),
        "down": array(4 * wide, wide),
        **norm,
    }
    return [block] * sizes.blocks


def _multiplied(pairs: Any, layer: Tree, edges: str) -> Any:
    """Each pair by the other two edges of all triangles that it is in."""
    x = layer_norm(pairs, layer["scale"], layer["shift"])
    left, right = (jax.nn.sigmoid(x @ layer[f"{name}_gate"]) * (x @ layer[name]) for name in ("left", "right"))
    mixed = layer_norm(jnp.einsum(edges, left, right), layer["out_scale"], layer["out_shift"])
    return pairs + jax.nn.sigmoid(x @ layer["out_gate"]) * (mixed @ layer["out"])


def _attended(pairs: Any, layer: Tree, heads: int) -> Any:
    """Along each row, biased by the third edge of triangles."""
    x = layer_norm(pairs, layer["scale"], layer["shift"])
    bias = (x @ layer["bias"]).transpose(2, 0, 1)[None].astype(jnp.float32)
    return pairs + attention(x, layer, heads, bias=bias)


def _block(pairs: Any, layer: Tree, heads: int) -> Any:
    pairs = _multiplied(pairs, layer["outgoing"], "ikc,jkc->ijc")
    pairs = _multiplied(pairs, layer["incoming"], "kic,kjc->ijc")
    pairs = _attended(pairs, layer["rows"], heads)
    return pairs + jax.nn.relu(layer_norm(pairs, layer["scale"], layer["shift"]) @ layer["up"]) @ layer["down"]


def _loss(params: Tree, pairs: Any, heads: int) -> Any:
    for layer in params:
        pairs = jax.checkpoint(partial(_block, heads=heads))(pairs, layer)
    return jnp.mean(pairs.astype(jnp.float32) ** 2)


def training(mesh: Mesh, sizes: Sizes) -> Plan:
    """A training step on one protein, pairs over both `data` and `model`."""
    pairs = array(sizes.length, sizes.length, sizes.channels)
    step = sgd(partial(_loss, heads=sizes.heads))
    return sharded(step, (_parameters(sizes), pairs), mesh, WHOLE, {"batch": ("data", "model", None)})
