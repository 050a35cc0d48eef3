"""A recommender: embeddings of what is chosen, from tables that are most of it, and how they go together.

DLRM (Naumov et al., https://arxiv.org/abs/1906.00091).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import WHOLE, Axes, Tree, array, sgd, sharded

__all__ = ["DLRM", "SMALL_DLRM", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is; `bottom` and `top` are the widths inside the MLPs before and after embeddings are paired."""

    tables: int
    rows: int
    width: int
    features: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    batch: int


DLRM = Sizes(26, 100_000, 128, 13, (512, 256), (1024, 512), 65536)
SMALL_DLRM = Sizes(4, 64, 8, 13, (16,), (16,), 32)


def _parameters(sizes: Sizes) -> Tree:
    def mlp(*widths: int) -> Tree:
        return [array(*pair, dtype=jnp.float32) for pair in pairwise(widths)]

    pairs = sizes.tables * (sizes.tables + 1) // 2
    paired = -(-(sizes.width + pairs) // 8) * 8
    return {
        "tables": [array(sizes.rows, sizes.width, dtype=jnp.float32)] * sizes.tables,
        "bottom": mlp(sizes.features, *sizes.bottom, sizes.width),
        "top": mlp(paired, *sizes.top, 1),
    }


def _paired(x: Any, embeddings: list[Any], width: int) -> Any:
    """The dot product of each two, beside `x`, filled up to a width."""
    every = jnp.stack([x, *embeddings], 1)
    products = jnp.einsum("bid,bjd->bij", every, every)
    rows, columns = jnp.tril_indices(every.shape[1], -1)
    parts = [x, products[:, rows, columns]]
    filling = jnp.zeros((x.shape[0], width - sum(part.shape[1] for part in parts)))
    return jnp.concatenate([*parts, filling], 1)


def _loss(params: Tree, batch: Tree) -> Any:
    x = batch["dense"]
    for weight in params["bottom"]:
        x = jax.nn.relu(x @ weight)
    embeddings = [table[batch["chosen"][:, number]] for number, table in enumerate(params["tables"])]
    *hidden, last = params["top"]
    y = _paired(x, embeddings, params["top"][0].shape[0])
    for weight in hidden:
        y = jax.nn.relu(y @ weight)
    logits = (y @ last)[:, 0]
    return jnp.mean(jnp.maximum(logits, 0) - logits * batch["labels"] + jnp.log1p(jnp.exp(-jnp.abs(logits))))


def training(mesh: Mesh, tables: Axes, sizes: Sizes) -> Plan:
    """A training step, its batch over `data`, each of its tables in parts."""
    batch = {
        "chosen": array(sizes.batch, sizes.tables, dtype=jnp.int32),
        "dense": array(sizes.batch, sizes.features, dtype=jnp.float32),
        "labels": array(sizes.batch, dtype=jnp.float32),
    }
    others: dict[str, Axes] = dict.fromkeys(("batch/chosen", "batch/dense"), ("data", None))
    others |= {"batch/labels": ("data",), "params/tables": tables}
    return sharded(sgd(_loss), (_parameters(sizes), batch), mesh, WHOLE, others)
