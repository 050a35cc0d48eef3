"""A language model of LSTMs, layer after layer, each a scan over the sequence."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import Rule, Table, Tree, array, sgd, sharded

__all__ = ["LSTM", "SMALL_LSTM", "TENSOR", "Sizes", "training"]

TENSOR: Table = {
    **dict.fromkeys(("input", "hidden", "logits"), (None, "model")),
    "bias": ("model",),
    "tokens": ("model", None),
}


class Sizes(NamedTuple):
    """How large it is."""

    layers: int
    width: int
    vocabulary: int
    batch: int
    length: int


LSTM = Sizes(2, 2048, 32000, 256, 128)
SMALL_LSTM = Sizes(2, 16, 32, 8, 6)


def _parameters(sizes: Sizes) -> Tree:
    wide = sizes.width
    layer = {"input": array(wide, 4 * wide), "hidden": array(wide, 4 * wide), "bias": array(4 * wide)}
    return {
        "tokens": array(sizes.vocabulary, wide),
        "layers": [layer] * sizes.layers,
        "logits": array(wide, sizes.vocabulary),
    }


def _layer(x: Any, layer: Tree) -> Any:
    """Of length, batch, width."""

    def tick(state: Any, given: Any) -> Any:
        hidden, cell = state
        into, forget, fresh, out = jnp.split(given + hidden @ layer["hidden"], 4, -1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(fresh)
        hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (hidden, cell), hidden

    zeros = jnp.zeros(x.shape[1:], x.dtype)
    return lax.scan(tick, (zeros, zeros), x @ layer["input"] + layer["bias"])[1]


def _loss(params: Tree, tokens: Any) -> Any:
    x = params["tokens"][tokens].swapaxes(0, 1)
    for layer in params["layers"]:
        x = _layer(x, layer)
    logits = (x @ params["logits"]).astype(jnp.float32)[:-1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), tokens.T[1:, :, None], -1))


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`."""
    arguments = (_parameters(sizes), array(sizes.batch, sizes.length, dtype=jnp.int32))
    return sharded(sgd(_loss), arguments, mesh, table, {"batch": ("data", None)})
