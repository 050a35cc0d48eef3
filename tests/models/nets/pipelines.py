"""How steps are laid out over devices: stages that hand on, narrow numbers, tables larger than a device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.models.nets.net import GRID, LINE, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints, xent

Tree = Any


def stages(params: Tree, parts: Any) -> Any:
    """Eight stages, each with its own weights; parts of the batch go from one to the next by a roll.

    params: w [stage, feature, feature]; parts: [part, example, feature].
    """
    count, number = params["w"].shape[0], parts.shape[0]

    def turn(held: Any, step: Any) -> Any:
        fresh = lax.dynamic_index_in_dim(parts, jnp.minimum(step, number - 1), keepdims=False)
        held = jnp.roll(held, 1, 0).at[0].set(fresh)
        held = held + jnp.tanh(jnp.einsum("sbd,sde->sbe", held, params["w"]))
        return held, held[-1]

    _, out = lax.scan(turn, jnp.zeros((count, *parts.shape[1:])), jnp.arange(number + count - 1))
    return out[count - 1 :]


@net({"w": array(8, 16, 16)}, array(4, 6, 16), args={"params/w": "data,-,-"}, mesh=LINE)
def pipeline(params: Tree, parts: Any) -> Any:
    """Forward only."""
    return stages(params, parts)


@net(
    {"w": array(4, 16, 16)},
    array(4, 8, 16),
    array(4, 8, 16),
    args={"params/w": "model,-,-", "parts": "-,data,-", "y": "-,data,-"},
)
def pipeline_gradient(params: Tree, parts: Any, y: Any) -> Any:
    """A training step; stages over one axis, examples over the other."""
    return descend(params, jax.grad(lambda p: jnp.mean((stages(p, parts) - y) ** 2))(params))


@net(
    array(16, 64, dtype=jnp.int8), array(64, 32, dtype=jnp.int8), array(16), array(32),
    args={"x": "data,model", "w": "model,-", "sx": "data"},
)  # fmt: skip
def product_of_eight_bits(x: Any, w: Any, sx: Any, sw: Any) -> Any:
    """Integers are multiplied and summed over devices in 32 bits, then scaled."""
    total = lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return total, total.astype(jnp.float32) * jnp.abs(sx)[:, None] * jnp.abs(sw) / 127**2


@net(
    {"table": array(120, 16), "w": array(16, 4)},
    {"ids": ints(64), "bag": ints(64), "weight": array(64), "y": ints(12)},
    args={"params/table": "model,-", "batch/ids": "data", "batch/bag": "data", "batch/weight": "data"},
)
def embedding_bag(params: Tree, batch: Tree) -> Any:
    """Weighted sums of rows of a split table, and its sparse gradient."""

    def loss(p: Tree) -> Any:
        rows = p["table"][batch["ids"]] * batch["weight"][:, None]
        return xent(jax.ops.segment_sum(rows, batch["bag"], 12) @ p["w"], batch["y"] % 4)

    return descend(params, jax.grad(loss)(params))


@net(
    {"user": array(64, 16), "item": array(96, 16), "w": array(16, 16)},
    {"user": ints(16), "item": ints(16)},
    args={"params/user": "model,-", "params/item": "model,-", "batch": P("data")},
)
def two_towers(params: Tree, batch: Tree) -> Any:
    """Users against all items of the batch; rows of both tables get their gradients by a scatter, in place."""
    rows = {name: params[name][batch[name]] for name in ("user", "item")}

    def loss(p: Tree) -> Any:
        a, b = jnp.tanh(p["user"] @ params["w"]), p["item"]
        return xent(a @ b.T / 0.5, jnp.arange(16))

    value, grads = jax.value_and_grad(loss)(rows)
    return {name: params[name].at[batch[name]].add(-0.1 * grads[name]) for name in rows}, value


@net(
    {"tables": array(6, 40, 8), "bottom": array(13, 8), "top": array(8 + 21, 1)},
    {"ids": ints(16, 6), "x": array(16, 13), "y": array(16)},
    args={"params/tables": "-,model,-", "batch": P("data")},
)
def click_rates(params: Tree, batch: Tree) -> Any:
    """Tables of six features, products of all pairs of what they give, and a layer on top: a training step."""

    def loss(p: Tree) -> Any:
        dense = jax.nn.relu(batch["x"] @ p["bottom"])
        rows = jax.vmap(lambda table, ids: table[ids], (0, 1), 1)(p["tables"], batch["ids"])
        every = jnp.concatenate([dense[:, None], rows], 1)
        pairs = jnp.einsum("bid,bjd->bij", every, every)[(slice(None), *jnp.triu_indices(7, 1))]
        logit = (jnp.concatenate([dense, pairs], -1) @ p["top"])[:, 0]
        return jnp.mean(jax.nn.softplus(logit) - jax.nn.sigmoid(batch["y"]) * logit)

    return descend(params, jax.grad(loss)(params))


@net(
    array(80, 16),
    array(80, 16),
    ints(32),
    ints(32),
    ints(32, 5),
    args={"words": "model,-", "contexts": "model,-", "center": "data", "near": "data", "far": "data,-"},
)
def word_vectors(words: Any, contexts: Any, center: Any, near: Any, far: Any) -> Any:
    """Skip-grams with negative samples: both tables are updated in place."""
    w = words[center]
    good, bad = contexts[near], contexts[far]
    pull = jax.nn.sigmoid(jnp.sum(w * good, -1)) - 1
    push = jax.nn.sigmoid(jnp.einsum("bd,bnd->bn", w, bad))
    step = pull[:, None] * good + jnp.einsum("bn,bnd->bd", push, bad)
    contexts = contexts.at[near].add(-0.1 * pull[:, None] * w)
    contexts = contexts.at[far.reshape(-1)].add(-0.1 * (push[..., None] * w[:, None]).reshape(-1, 16))
    return words.at[center].add(-0.1 * step), contexts


@net(array(16, 32), array(128, 32), args={"queries": "data,-", "documents": "model,-"}, mesh=GRID)
def nearest_documents(queries: Any, documents: Any) -> Any:
    """The five nearest of documents that are split, and these themselves."""
    scores, which = lax.top_k(queries @ documents.T, 5)
    return scores, which, documents[which]


@net(ints(256), array(64), args={"items": "data", "values": "data"}, mesh=LINE)
def sketches(items: Any, values: Any) -> Any:
    """Counts in hashed cells, a histogram by bins, and quantiles by sorting."""
    rows = jnp.arange(4)[:, None]
    cells = (items[None] * (2 * rows + 3) + rows * 7) % 31
    counts = jnp.zeros((4, 31), jnp.int32).at[rows, cells].add(1)
    estimate = counts[rows, cells].min(0)
    bins = jnp.searchsorted(jnp.linspace(-2, 2, 9), values)
    return estimate, jnp.bincount(bins, length=10), jnp.quantile(values, jnp.array([0.1, 0.5, 0.9]))


@net(
    {"image": array(32, 16), "text": array(24, 16)},
    {"image": array(16, 32), "text": array(16, 24)},
    args={"batch": "data,-"},
    mesh=LINE,
)
def pairs_of_image_and_text(params: Tree, batch: Tree) -> Any:
    """Sigmoids of all pairs, each device's images against everybody's texts: a training step."""

    def loss(p: Tree) -> Any:
        a, b = (batch[k] @ p[k] for k in ("image", "text"))
        a, b = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
        return jnp.mean(jax.nn.softplus((1 - 2 * jnp.eye(16)) * (5 * a @ b.T - 2)))

    return descend(params, jax.grad(loss)(params))


@net(
    {"w": array(32, 32, dtype=jnp.bfloat16)},
    {"w": array(32, 32)},
    {"x": array(8, 2, 32, dtype=jnp.bfloat16), "y": array(8, 2, 32, dtype=jnp.bfloat16)},
    args={"params/w": "-,model", "master/w": "-,model", "batch": "-,data,-"},
)
def mixed_precision_accumulation(params: Tree, master: Tree, batch: Tree) -> Any:
    """Gradients of eight parts in 16 bits are summed in 32, and the weights of 32 bits are what learns."""

    def part(total: Any, one: Any) -> Any:
        def error(w: Any) -> Any:
            return jnp.mean((jnp.tanh(one["x"] @ w) - one["y"]).astype(jnp.float32) ** 2)

        return total + jax.grad(error)(params["w"]).astype(jnp.float32), None

    total, _ = lax.scan(part, jnp.zeros((32, 32)), batch)
    new = master["w"] - 1e-2 * total / 8
    return new.astype(jnp.bfloat16), new
