"""Llamas as they are served: prompts are read into a cache, and tokens after them made one by one."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large import transformer
from tests.models.large.common import Axes, Table, Tree, array, sharded
from tests.models.large.transformer import LLAMA, SMALL

__all__ = ["ANSWERS", "FEW_ANSWERS", "PROMPTS", "Sizes", "generating", "prefilling"]


class Sizes(NamedTuple):
    """How large it is: a model, half of whose cache is filled, and the tokens that are made."""

    model: transformer.Sizes
    tokens: int


ANSWERS = Sizes(LLAMA._replace(layers=2, batch=64, length=4096), 64)
FEW_ANSWERS = Sizes(SMALL, 4)
PROMPTS = LLAMA._replace(layers=2, batch=8, length=4096)


def generating(mesh: Mesh, table: Table, cache: Axes, sizes: Sizes) -> Plan:
    """The likeliest tokens after the first, in a loop with the cache."""
    model, count = sizes
    start = model.length // 2

    def run(params: Tree, cache: Tree, first: Any) -> Any:
        def tick(number: Any, state: Any) -> Any:
            cache, tokens, made = state
            tokens, cache = transformer.decoded(params, cache, tokens, start + number, model)
            return cache, tokens, lax.dynamic_update_slice(made, tokens[:, None], (0, number))

        return lax.fori_loop(0, count, tick, (cache, first, jnp.zeros((model.batch, count), jnp.int32)))

    first = array(model.batch, dtype=jnp.int32)
    arguments = (transformer.parameters(model, scan=False), transformer.caches(model), first)
    return sharded(run, arguments, mesh, table, {"cache": cache, "first": cache[:1]})


def prefilling(mesh: Mesh, table: Table, prompt: Axes, sizes: transformer.Sizes) -> Plan:
    """The token after each prompt, and the keys and values of its layers."""

    def run(params: Tree, prompt: Any) -> Any:
        x, made = params["tokens"][prompt], []
        for layer in params["layers"]:
            x, kept = transformer.layer_and_cache(x, layer, sizes)
            made.append(kept)
        return jnp.argmax(transformer.logits_of(x[:, -1], params), -1), made

    arguments = (transformer.parameters(sizes, scan=False), array(sizes.batch, sizes.length, dtype=jnp.int32))
    return sharded(run, arguments, mesh, table, {"prompt": prompt})
