"""A selective state space model: a scan over tokens, each of which says how much of the state is kept.

Mamba (Gu and Dao, https://arxiv.org/abs/2312.00752), its scan a step at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import Rule, Table, Tree, array, rms_norm, sgd, sharded

__all__ = ["MAMBA", "SMALL_MAMBA", "TENSOR", "Sizes", "training"]

TENSOR: Table = {
    **dict.fromkeys(("in", "conv", "step_out"), (None, "model")),
    **dict.fromkeys(("step_in", "write", "read", "decay", "out"), ("model", None)),
    "direct": ("model",),
}


class Sizes(NamedTuple):
    """How large it is: each of `inner` channels has a `state`; the sizes of steps come through `rank` numbers."""

    layers: int
    width: int
    inner: int
    state: int
    rank: int
    taps: int
    batch: int
    length: int


MAMBA = Sizes(4, 2048, 4096, 16, 128, 4, 16, 2048)
SMALL_MAMBA = Sizes(1, 16, 32, 4, 8, 4, 8, 8)


def _parameters(sizes: Sizes) -> Tree:
    wide, inner, state = sizes.width, sizes.inner, sizes.state
    layer = {
        "norm": array(wide),
        "in": array(wide, 2 * inner),
        "conv": array(sizes.taps, inner),
        "step_in": array(inner, sizes.rank),
        "step_out": array(sizes.rank, inner),
        "write": array(inner, state),
        "read": array(inner, state),
        "decay": array(inner, state, dtype=jnp.float32),
        "direct": array(inner),
        "out": array(inner, wide),
    }
    return [layer] * sizes.layers


def _convolved(x: Any, taps: Any) -> Any:
    """Each channel along the sequence, of what came before."""
    padded = jnp.pad(x, ((0, 0), (len(taps) - 1, 0), (0, 0)))
    return sum(padded[:, number : number + x.shape[1]] * taps[number] for number in range(len(taps)))


def _scanned(x: Any, layer: Tree) -> Any:
    """What is read of the state after each token, in float32."""
    steps = jax.nn.softplus(x @ layer["step_in"] @ layer["step_out"]).astype(jnp.float32)
    write, read = ((x @ layer[name]).astype(jnp.float32) for name in ("write", "read"))
    decay = -jnp.exp(layer["decay"])

    def tick(state: Any, token: Any) -> Any:
        step, write, read, value = token
        added = step[..., None] * write[:, None] * value.astype(jnp.float32)[..., None]
        state = state * jnp.exp(step[..., None] * decay) + added
        return state, jnp.einsum("bis,bs->bi", state, read)

    state = jnp.zeros((x.shape[0], *decay.shape), jnp.float32)
    tokens = tuple(one.swapaxes(0, 1) for one in (steps, write, read, x))
    return lax.scan(tick, state, tokens)[1].swapaxes(0, 1)


def _layer(x: Any, layer: Tree) -> Any:
    inside, gate = jnp.split(rms_norm(x, layer["norm"]) @ layer["in"], 2, -1)
    inside = jax.nn.silu(_convolved(inside, layer["conv"]))
    mixed = _scanned(inside, layer).astype(x.dtype) + inside * layer["direct"]
    return x + (mixed * jax.nn.silu(gate)) @ layer["out"]


def _loss(params: Tree, x: Any) -> Any:
    for layer in params:
        x = jax.checkpoint(_layer)(x, layer)
    return jnp.mean(x.astype(jnp.float32) ** 2)


def training(mesh: Mesh, table: Table | Rule, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`."""
    arguments = (_parameters(sizes), array(sizes.batch, sizes.length, sizes.width))
    return sharded(sgd(_loss), arguments, mesh, table, {"batch": ("data", None, None)})
