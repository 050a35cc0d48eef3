"""Graph networks of jraph: messages, attention, batches of graphs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program

EDGES = 32


def _graph() -> Any:
    """Two graphs in one tuple."""
    import jraph

    ends = np.random.default_rng(0)
    return jraph.GraphsTuple(
        nodes=batch(),
        edges=batch(EDGES, 4, seed=1),
        senders=jnp.asarray(ends.integers(0, BATCH, EDGES), jnp.int32),
        receivers=jnp.asarray(ends.integers(0, BATCH, EDGES), jnp.int32),
        n_node=jnp.array([6, 10]),
        n_edge=jnp.array([12, 20]),
        globals=jnp.ones((2, 2)),
    )


@program("jraph", long=True)
def jraph_network() -> Case:
    import jraph

    def apply(params: Any, graph: Any) -> Any:
        def dense(name: str) -> Any:
            return lambda *parts: jnp.tanh(jnp.concatenate(parts, -1) @ params[name])

        network = jraph.GraphNetwork(dense("edge"), dense("node"), dense("global"), attention_logit_fn=None)
        return network(graph)

    params = {
        "edge": batch(4 + 2 * WIDTH + 2, 8),
        "node": batch(WIDTH + 2 * 8 + 2, 8),
        "global": batch(8 + 8 + 2, 8),
    }
    shardings = {"graph/nodes": "data", "graph/edges": "data", "params/(node|edge)": P(None, "model")}
    return Case(apply, (params, _graph()), shardings)


@program("jraph")
def jraph_attention() -> Case:
    import jraph

    def apply(query: Any, logit: Any, graph: Any) -> Any:
        return jraph.GAT(
            lambda nodes: nodes @ query,
            lambda sent, received, edges: jax.nn.leaky_relu(jnp.concatenate([sent, received, edges], -1) @ logit),
            lambda nodes: jax.nn.elu(nodes),
        )(graph).nodes

    args = (batch(WIDTH, 16), batch(36, 1), _graph())
    return Case(apply, args, {"graph/nodes": "data", "query": P(None, "model")})


@program("jraph", "optax", long=True)
def jraph_training_step() -> Case:
    import jraph
    import optax

    optimizer = optax.adam(1e-2)

    def step(params: Any, state: Any, graph: Any, labels: Any) -> Any:
        def loss(params: Any) -> Any:
            hidden = jraph.GraphConvolution(lambda nodes: jax.nn.relu(nodes @ params["first"]))(graph)
            nodes = jraph.GraphConvolution(lambda nodes: nodes @ params["second"])(hidden).nodes
            of = jnp.repeat(jnp.arange(2), graph.n_node, total_repeat_length=BATCH)
            logits = jraph.segment_mean(nodes, of, 2)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    params = {"first": batch(WIDTH, 16), "second": batch(16, 4)}
    args = (params, optimizer.init(params), _graph(), jnp.array([0, 3]))
    return Case(step, args, {"graph/nodes": "data", "graph/senders": "data", "params/first": P(None, "model")})
