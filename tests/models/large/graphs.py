"""A net on a graph, whose nodes tell each other along edges that may lead anywhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from shardwright.mesh import Mesh
from shardwright.program import Plan
from tests.models.large.common import WHOLE, Axes, Tree, array, sgd, sharded

__all__ = ["GRAPH", "SMALL_GRAPH", "Sizes", "training"]


class Sizes(NamedTuple):
    """How large it is."""

    layers: int
    width: int
    nodes: int
    edges: int


GRAPH = Sizes(3, 256, 131_072, 1_048_576)
SMALL_GRAPH = Sizes(2, 8, 64, 256)


def _layer(nodes: Any, layer: Tree, sources: Any, targets: Any) -> Any:
    ends = jnp.concatenate([nodes[sources], nodes[targets]], -1)
    told = jax.ops.segment_sum(jax.nn.relu(ends @ layer["told"]), targets, nodes.shape[0])
    return jax.nn.relu(jnp.concatenate([nodes, told], -1) @ layer["updated"])


def _loss(params: Tree, batch: Tree) -> Any:
    nodes = batch["nodes"]
    for layer in params:
        nodes = _layer(nodes, layer, batch["sources"], batch["targets"])
    return jnp.mean(nodes**2)


def training(mesh: Mesh, sizes: Sizes) -> Plan:
    """A training step, nodes and edges over `data`."""
    weight = array(2 * sizes.width, sizes.width, dtype=jnp.float32)
    edges = array(sizes.edges, dtype=jnp.int32)
    batch = {"nodes": array(sizes.nodes, sizes.width, dtype=jnp.float32), "sources": edges, "targets": edges}
    others: dict[str, Axes] = {"batch/nodes": ("data", None), "batch/sources": ("data",), "batch/targets": ("data",)}
    return sharded(sgd(_loss), ([{"told": weight, "updated": weight}] * sizes.layers, batch), mesh, WHOLE, others)
