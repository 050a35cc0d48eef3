"""Graph nets: nodes, edges and what is sent along them, by gathers and scatters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.models.nets.net import LINE, ODD, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints

Tree = Any
EDGES = {"from": ints(96), "to": ints(96)}


@net(
    {"w1": array(16, 32), "w2": array(32, 8)},
    array(32, 16),
    EDGES,
    args={"params/w1": "-,model", "params/w2": "model,-", "nodes": "data,-", "edges": "data"},
)
def graph_convolution(params: Tree, nodes: Any, edges: Tree) -> Any:
    """Two layers of means over neighbours, by degrees of both ends."""
    degree = jnp.zeros(32).at[edges["to"]].add(1) + 1
    norm = lax.rsqrt(degree)

    def spread(h: Any) -> Any:
        sent = (h * norm[:, None])[edges["from"]]
        return (jax.ops.segment_sum(sent, edges["to"], 32) + h * norm[:, None]) * norm[:, None]

    return spread(jax.nn.relu(spread(nodes @ params["w1"])) @ params["w2"])


@net(
    {"w": array(16, 4, 8), "from": array(4, 8), "to": array(4, 8)},
    {"nodes": array(32, 16), "y": array(32, 4, 8)},
    EDGES,
    args={"params/w": "-,model,-", "params/from": "model,-", "params/to": "model,-", "edges": "data"},
)
def graph_attention(params: Tree, batch: Tree, edges: Tree) -> Any:
    """A training step: a softmax over the edges into each node, four heads split."""

    def loss(p: Tree) -> Any:
        h = jnp.einsum("nd,dhe->nhe", batch["nodes"], p["w"])
        scores = (h * p["from"]).sum(-1)[edges["from"]] + (h * p["to"]).sum(-1)[edges["to"]]
        scores = jax.nn.leaky_relu(scores)
        top = jax.ops.segment_max(lax.stop_gradient(scores), edges["to"], 32)
        weights = jnp.exp(scores - top[edges["to"]])
        total = jax.ops.segment_sum(weights, edges["to"], 32)[edges["to"]]
        out = jax.ops.segment_sum(h[edges["from"]] * (weights / total)[..., None], edges["to"], 32)
        return jnp.mean((out - batch["y"]) ** 2)

    return descend(params, jax.grad(loss)(params))


@net(
    {"edge": array(40, 32), "node": array(48, 16), "out": array(16, 1)},
    {"nodes": array(32, 16), "edges": array(96, 8), "graph": ints(32), "y": array(4)},
    EDGES,
    args={"params/edge": "-,model", "batch/edges": "data,-", "edges": "data"},
)
def message_passing(params: Tree, batch: Tree, edges: Tree) -> Any:
    """Two rounds, edges split over devices; a number for each of four graphs, and the gradient."""

    def loss(p: Tree) -> Any:
        h = batch["nodes"]
        for _ in range(2):
            both = jnp.concatenate([h[edges["from"]], h[edges["to"]], batch["edges"]], -1)
            news = jnp.zeros((32, 32)).at[edges["to"]].add(jax.nn.relu(both @ p["edge"]))
            h = h + jnp.tanh(jnp.concatenate([h, news], -1) @ p["node"])
        read = jax.ops.segment_sum(h, batch["graph"] % 4, 4)
        return jnp.mean(((read @ p["out"])[:, 0] - batch["y"]) ** 2)

    return jax.value_and_grad(loss)(params)


@net(
    {"in": array(3, 32), "mid": array(32, 64), "out": array(64, 10)},
    array(8, 48, 3),
    args={"params/mid": "-,model", "params/out": "model,-", "points": "data,model,-"},
)
def point_cloud(params: Tree, points: Any) -> Any:
    """Each point alone, then the maximum over points, which are split; and which point it was."""
    h = jax.nn.relu(jax.nn.relu(points @ params["in"]) @ params["mid"])
    return h.max(1) @ params["out"], jnp.argmax(h, 1)


@net(
    {"edge": array(17, 16), "move": array(16, 1), "node": array(24, 8)},
    array(4, 12, 8),
    array(4, 12, 3),
    args={"h": "data,model,-", "x": "data,model,-"},
)
def equivariant_net(params: Tree, h: Any, x: Any) -> Any:
    """All pairs of atoms: features from distances, and atoms pushed along the lines between them."""
    gap = x[:, :, None] - x[:, None]
    far = jnp.sum(gap * gap, -1, keepdims=True)
    pairs = jnp.broadcast_to(h[:, :, None], (4, 12, 12, 8)), jnp.broadcast_to(h[:, None], (4, 12, 12, 8))
    news = jax.nn.silu(jnp.concatenate([*pairs, far], -1) @ params["edge"]) * (1 - jnp.eye(12))[..., None]
    x = x + jnp.mean(gap * (news @ params["move"]), 2)
    return h + jnp.concatenate([h, news.sum(2)], -1) @ params["node"], x


@net(array(8, 16, 3), args={"places": "data,-,-"}, mesh=LINE)
def atomic_forces(places: Any) -> Any:
    """Energies of clusters of atoms within a cutoff, and the forces: their gradients. [cluster, atom, axis]."""

    def energy(x: Any) -> Any:
        gap = x[:, None] - x[None] + 1e3 * jnp.eye(16)[..., None]
        far = jnp.sqrt(jnp.sum(gap * gap, -1) + 0.5)
        cut = jnp.where(far < 5.0, 0.5 * (jnp.cos(jnp.pi * far / 5) + 1), 0)
        return jnp.sum((far**-6 - far**-3) * cut)

    energies, grads = jax.vmap(jax.value_and_grad(energy))(places)
    return energies, -grads


@net(ints(128), ints(128), args={"sources": "data", "targets": "data"}, mesh=LINE)
def page_rank(sources: Any, targets: Any) -> Any:
    """Iterated until it stands still; edges split."""
    degree = jnp.maximum(jnp.zeros(40).at[sources].add(1.0), 1)

    def turn(carry: Any) -> Any:
        rank, _, count = carry
        new = 0.15 / 40 + 0.85 * jnp.zeros(40).at[targets].add((rank / degree)[sources])
        return new, jnp.abs(new - rank).sum(), count + 1

    return lax.while_loop(lambda c: (c[1] > 1e-4) & (c[2] < 30), turn, (jnp.full(40, 1 / 40), jnp.float32(1), 0))


@net(array(24, 24), args={"weights": "data,model"}, mesh=ODD)
def shortest_paths(weights: Any) -> Any:
    """All pairs, by squaring in the algebra of minima and sums; and by Floyd and Warshall, one node after the other."""
    far = jnp.abs(weights) + 0.1
    far = jnp.where(jnp.eye(24, dtype=bool), 0, far)
    squared = far
    for _ in range(3):
        squared = jnp.min(squared[:, :, None] + squared[None], axis=1)

    def relax(k: Any, d: Any) -> Any:
        return jnp.minimum(d, d[:, k][:, None] + d[k][None])

    return squared, lax.fori_loop(0, 24, relax, far)


@net(
    {"table": array(64, 16), "w": array(32, 16)},
    {"nodes": ints(16), "near": ints(16, 5), "other": ints(16)},
    args={"params/table": "model,-", "batch": P("data")},
)
def sampled_neighbours(params: Tree, batch: Tree) -> Any:
    """A training step on a table of nodes that is split: means of sampled neighbours, links against random pairs."""

    def code(p: Tree, nodes: Any, near: Any) -> Any:
        both = jnp.concatenate([p["table"][nodes], p["table"][near].mean(1)], -1)
        h = jax.nn.relu(both @ p["w"])
        return h / (jnp.linalg.norm(h, axis=-1, keepdims=True) + 1e-3)

    def loss(p: Tree) -> Any:
        h = code(p, batch["nodes"], batch["near"])
        good = jnp.sum(h * p["table"][batch["other"]], -1)
        bad = jnp.sum(h * jnp.roll(p["table"][batch["other"]], 1, 0), -1)
        return -jnp.mean(jax.nn.log_sigmoid(good) + jax.nn.log_sigmoid(-bad))

    return descend(params, jax.grad(loss)(params))
