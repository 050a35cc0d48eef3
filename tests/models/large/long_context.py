"""Llamas trained on more than fits: sequences in parts, and batches one after the other."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large import transformer
from tests.models.large.common import Table, Tree, alike, array, sharded
from tests.models.large.transformer import LLAMA, SMALL

__all__ = ["BATCHES", "FEW_BATCHES", "LONG", "PAIR", "SHORT", "SHORT_PAIR", "Sizes", "accumulating", "training"]


class Sizes(NamedTuple):
    """How large it is: a model, and how many batches make a step."""

    model: transformer.Sizes
    batches: int


LONG = LLAMA._replace(layers=2, batch=1, length=16384)
SHORT = SMALL._replace(batch=1, length=16)
PAIR = LLAMA._replace(layers=2, batch=2, length=8192)
SHORT_PAIR = SMALL._replace(batch=2, length=16)
BATCHES = Sizes(LLAMA._replace(layers=2), 4)
FEW_BATCHES = Sizes(SMALL, 2)


def training(mesh: Mesh, table: Table, sizes: transformer.Sizes) -> Plan:
    """A training step, sequences in parts over `data`."""
    return transformer.training(mesh, table, sizes, tokens=(None, "data"))


def accumulating(mesh: Mesh, table: Table, sizes: Sizes) -> Plan:
    """A training step with momentum, gradients of several batches added up in float32, each batch over `data`."""
    model, batches = sizes

    def step(params: Tree, momentum: Tree, tokens: Any) -> Any:
        def added(total: Tree, batch: Any) -> Any:
            value, grads = jax.value_and_grad(transformer.loss)(params, batch, model)
            return jax.tree.map(lambda t, g: t + g.astype(jnp.float32), total, grads), value

        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, jnp.float32), params)
        total, values = lax.scan(added, zeros, tokens)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g / batches, momentum, total)
        params = jax.tree.map(lambda p, m: (p - 1e-3 * m).astype(p.dtype), params, momentum)
        return params, momentum, values.mean()

    params = transformer.parameters(model, scan=False)
    tokens = array(batches, model.batch, model.length, dtype=jnp.int32)
    return sharded(step, (params, alike(params), tokens), mesh, table, {"tokens": (None, "data", None)})
