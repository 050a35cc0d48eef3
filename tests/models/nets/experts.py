"""Mixtures of experts, and layers that are put together from parts chosen at run time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import LINE, Split, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints

Tree = Any
EXPERTS = {"gate": array(16, 8), "up": array(8, 16, 32), "down": array(8, 32, 16)}
BY_EXPERT: Split = {"params/up": "model,-,-", "params/down": "model,-,-"}


def feed(p: Tree, slots: Any) -> Any:
    """Each expert on its own slots. [expert, slot, feature]."""
    return jnp.einsum("ecf,efd->ecd", jax.nn.silu(jnp.einsum("ecd,edf->ecf", slots, p["up"])), p["down"])


@net(EXPERTS, {"x": array(32, 16), "y": array(32, 16)}, args={**BY_EXPERT, "batch": "data,-"})
def experts_by_one_hot(params: Tree, batch: Tree) -> Any:
    """A training step: one expert a token, slots by products with masks, and a loss that balances."""

    def loss(p: Tree) -> Any:
        gates = jax.nn.softmax(batch["x"] @ p["gate"])
        mask = jax.nn.one_hot(jnp.argmax(gates, -1), 8)
        place = (jnp.cumsum(mask, 0) - 1) * mask
        slots = jax.nn.one_hot(place.sum(-1).astype(jnp.int32), 6)[:, None] * (mask * (place < 6))[..., None]
        out = feed(p, jnp.einsum("tec,td->ecd", slots, batch["x"]))
        out = jnp.einsum("tec,te,ecd->td", slots, gates, out)
        return jnp.mean((out - batch["y"]) ** 2) + 8 * jnp.sum(gates.mean(0) * mask.mean(0))

    return descend(params, jax.grad(loss)(params))


@net(EXPERTS, array(32, 16), args={**BY_EXPERT, "x": "data,-"})
def experts_by_sort(params: Tree, x: Any) -> Any:
    """Two experts a token: pairs are sorted by expert, cut off behind its slots, and put back by a scatter."""
    best, which = lax.top_k(jax.nn.softmax(x @ params["gate"]), 2)
    order = jnp.argsort(which.reshape(-1), stable=True)
    expert, token = which.reshape(-1)[order], order // 2
    place = jnp.arange(64) - jnp.searchsorted(expert, jnp.arange(8))[expert]
    slots = jnp.zeros((8, 12, 16)).at[expert, place].set(x[token], mode="drop")
    out = feed(params, slots).at[expert, place].get(mode="fill", fill_value=0)
    return jnp.zeros((32, 16)).at[token].add(out * best.reshape(-1)[order][:, None])


@net(EXPERTS, array(32, 16), args={"params/up": "data,-,-", "params/down": "data,-,-", "x": "data,-"}, mesh=LINE)
def choice_of_experts(params: Tree, x: Any) -> Any:
    """Each expert takes the eight tokens that like it most; tokens and experts over the same eight devices."""
    scores = jax.nn.softmax(x @ params["gate"])
    weight, token = lax.top_k(scores.T, 8)
    out = feed(params, x[token]) * weight[..., None]
    return jnp.zeros((32, 16)).at[token.reshape(-1)].add(out.reshape(-1, 16))


@net({**EXPERTS, "slots": array(16, 8, 4)}, array(4, 16, 16), args={**BY_EXPERT, "x": "data,-,-"})
def soft_mixture(params: Tree, x: Any) -> Any:
    """Every slot is a mean of all tokens, every token one of all slots."""
    logits = jnp.einsum("btd,des->btes", x, params["slots"])
    slots = jnp.einsum("btes,btd->besd", jax.nn.softmax(logits, 1), x)
    h = jax.nn.silu(jnp.einsum("besd,edf->besf", slots, params["up"]))
    out = jnp.einsum("besf,efd->besd", h, params["down"])
    back = jax.nn.softmax(logits.reshape(4, 16, 32), -1).reshape(4, 16, 8, 4)
    return jnp.einsum("btes,besd->btd", back, out)


@net(
    {"w": array(32, 32), "a": array(6, 32, 4), "b": array(6, 4, 32)},
    array(8, 10, 32),
    ints(8),
    args={"params/w": "-,model", "params/b": "-,-,model", "x": "data,-,-", "which": "data"},
)
def many_adapters(params: Tree, x: Any, which: Any) -> Any:
    """A shared layer and, for each request, an adapter of its own, read from a table."""
    low = jnp.einsum("btd,bdr->btr", x, params["a"][which])
    return x @ params["w"] + jnp.einsum("btr,brd->btd", low, params["b"][which])


@net(
    EXPERTS,
    array(32, 16),
    array(32, 16),
    args={"params/up": "-,-,model", "params/down": "-,model,-", "x": "data,-", "y": "data,-"},
)
def experts_in_a_loop(params: Tree, x: Any, y: Any) -> Any:
    """One expert after the other on all tokens, weighted; their inner features are split."""

    def loss(p: Tree) -> Any:
        gates = jax.nn.softmax(x @ p["gate"])

        def body(total: Any, one: Any) -> Any:
            up, down, gate = one
            return total + jax.nn.gelu(x @ up) @ down * gate[:, None], None

        out, _ = lax.scan(body, jnp.zeros_like(x), (p["up"], p["down"], gates.T))
        return jnp.mean((out - y) ** 2)

    return jax.value_and_grad(loss)(params)


@net(
    {"a": array(4, 16, 16), "b": array(4, 16, 16)},
    array(8, 16),
    ints(),
    args={"params": "-,-,model", "x": "data,-"},
)
def branches_by_task(params: Tree, x: Any, task: Any) -> Any:
    """One of four heads, chosen for the whole batch by a branch."""
    heads = [lambda h, i=i: jnp.tanh(h @ params["a"][i]) @ params["b"][i] for i in range(4)]
    return lax.switch(task, heads, x)


@net(
    {"make": array(8, 16 * 16), "bias": array(8, 16)},
    array(16, 8),
    array(16, 4, 16),
    args={"params/make": "-,model", "codes": "data,-", "x": "data,-,-"},
)
def hypernetwork(params: Tree, codes: Any, x: Any) -> Any:
    """A net makes the weights of another, for each example."""
    weights = (codes @ params["make"]).reshape(16, 16, 16) / 4
    return jnp.tanh(jnp.einsum("btd,bde->bte", x, weights) + (codes @ params["bias"])[:, None])
