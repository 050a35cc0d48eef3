"""Optimizers beyond one leaf at a time, and learning that differentiates learning."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.models.nets.net import LINE, ODD, Split, net
from tests.models.steps.layers import descend
from tests.models.steps.step import array, ints, xent

Tree = Any
LAYERS = {"up": array(4, 16, 32), "down": array(4, 32, 16)}
BY_FEATURES: Split = {
    "params/up": "-,-,model",
    "params/down": "-,model,-",
    "state/up": "-,-,model",
    "state/down": "-,model,-",
}


def residual(p: Tree, x: Any) -> Any:
    """Four layers in a loop."""

    def layer(h: Any, p: Any) -> Any:
        return (h + jax.nn.silu(h @ p["up"] / 4) @ p["down"] / 6, None)

    return lax.scan(layer, x, p)[0]


def squared(p: Tree, batch: Tree) -> Any:
    """The loss of `residual`."""
    return jnp.mean((residual(p, batch["x"]) - batch["y"]) ** 2)


BATCH = {"x": array(8, 16), "y": array(8, 16)}


@net(LAYERS, LAYERS, BATCH, args={**BY_FEATURES, "batch": "data,-"})
def muon_on_stacked_layers(params: Tree, state: Tree, batch: Tree) -> Any:
    """All layers of a stack made orthogonal at once, by Newton and Schulz, weights split by features."""

    def orthogonal(m: Any) -> Any:
        is_tall = m.shape[-2] > m.shape[-1]
        x = m.swapaxes(-1, -2) if is_tall else m
        x = x / (jnp.linalg.norm(x, axis=(-2, -1), keepdims=True) + 1e-7)
        for _ in range(5):
            a = x @ x.swapaxes(-1, -2)
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x.swapaxes(-1, -2) if is_tall else x

    grads = jax.grad(squared)(params, batch)
    state = jax.tree.map(lambda m, g: 0.95 * m + g, state, grads)
    return jax.tree.map(lambda p, m: p - 0.02 * orthogonal(m), params, state), state


@net(
    LAYERS,
    {name: {"row": array(4, *one.shape[1:2]), "column": array(4, one.shape[2])} for name, one in LAYERS.items()},
    BATCH,
    args={
        "params/up": "-,-,model",
        "params/down": "-,model,-",
        "state/up/column": "-,model",
        "state/down/row": "-,model",
        "batch": "data,-",
    },
)
def adafactor_on_stacked_layers(params: Tree, state: Tree, batch: Tree) -> Any:
    """Second moments as a row and a column for each layer of a stack, which are split as the weights are."""

    def leaf(p: Any, s: Tree, g: Any) -> Any:
        squares = g * g + 1e-30
        row = 0.99 * jnp.abs(s["row"]) + 0.01 * squares.mean(-1)
        column = 0.99 * jnp.abs(s["column"]) + 0.01 * squares.mean(-2)
        second = row[..., None] * column[:, None] / row.mean(-1)[:, None, None]
        update = g * lax.rsqrt(second)
        update = update / jnp.maximum(1.0, jnp.sqrt(jnp.mean(update**2, (-2, -1), keepdims=True)))
        return p - 1e-2 * update, {"row": row, "column": column}

    grads = jax.grad(squared)(params, batch)
    steps = {name: leaf(params[name], state[name], grads[name]) for name in params}
    return {name: one[0] for name, one in steps.items()}, {name: one[1] for name, one in steps.items()}


@net(
    {"w": array(32, 32)},
    {"left": array(4, 8, 8), "right": array(4, 8, 8), "m": array(32, 32)},
    BATCH | {"x": array(16, 32), "y": array(16, 32)},
    args={
        "params/w": "-,model",
        "state/left": "model,-,-",
        "state/right": "model,-,-",
        "state/m": "-,model",
        "batch": "data,-",
    },
)
def shampoo_by_blocks(params: Tree, state: Tree, batch: Tree) -> Any:
    """Statistics of blocks on the diagonal, inverse roots by eigenvalues, blocks split over devices."""
    g = jax.grad(lambda p: jnp.mean((jnp.tanh(batch["x"] @ p["w"]) - batch["y"]) ** 2))(params)["w"]
    blocks = jnp.einsum("iaib->iab", g.reshape(4, 8, 4, 8))
    left = state["left"] @ state["left"].mT + blocks @ blocks.mT
    right = state["right"] @ state["right"].mT + blocks.mT @ blocks

    def root(a: Any) -> Any:
        values, vectors = jnp.linalg.eigh(a + 1e-2 * jnp.eye(8))
        return (vectors * jnp.maximum(values, 1e-4)[:, None] ** -0.25) @ vectors.mT

    better = root(left) @ blocks @ root(right)
    update = jnp.einsum("iab,ij->iajb", better, jnp.eye(4)).reshape(32, 32) + 0.1 * g
    m = 0.9 * state["m"] + update
    return {"w": params["w"] - 1e-2 * m}, {"left": left, "right": right, "m": m}


@net(LAYERS, BATCH, args={"params/up": "-,-,model", "params/down": "-,model,-", "batch": "data,-"})
def sharpness_aware(params: Tree, batch: Tree) -> Any:
    """The gradient not here, but a step uphill."""
    grads = jax.grad(squared)(params, batch)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    uphill = jax.tree.map(lambda p, g: p + 0.05 * g / (norm + 1e-6), params, grads)
    return descend(params, jax.grad(squared)(uphill, batch)), norm


@net(
    array(64),
    array(5, 64),
    array(5, 64),
    array(64),
    args={"x": "data", "moves": "-,data", "turns": "-,data", "g": "data"},
    mesh=LINE,
)
def limited_memory_quasi_newton(x: Any, moves: Any, turns: Any, g: Any) -> Any:
    """The two loops of L-BFGS on a vector that is split, and a line search by halving."""
    turns = moves * (1 + turns**2)
    rho = 1 / jnp.sum(moves * turns, -1)

    def down(q: Any, one: Any) -> Any:
        s, y, r = one
        alpha = r * (s @ q)
        return q - alpha * y, alpha

    q, alphas = lax.scan(down, g, (moves, turns, rho), reverse=True)
    q = q * (moves[-1] @ turns[-1]) / (turns[-1] @ turns[-1])

    def back(r: Any, one: Any) -> Any:
        s, y, r0, alpha = one
        return r + s * (alpha - r0 * (y @ r)), None

    q, _ = lax.scan(back, q, (moves, turns, rho, alphas))

    def value(x: Any) -> Any:
        return jnp.sum(x**2 + 0.1 * x**4)

    def worse(t: Any) -> Any:
        return (value(x - t * q) > value(x)) & (t > 1e-3)

    step = lax.while_loop(worse, lambda t: t / 2, jnp.float32(1))
    return x - step * q, step


@net(
    {"w": array(16, 32), "out": array(32, 8)},
    {"x": array(16, 16), "y": ints(16)},
    args={"params/w": "-,model", "params/out": "model,-", "batch": P("data")},
)
def kronecker_factors(params: Tree, batch: Tree) -> Any:
    """Natural gradients from covariances of inputs and of slopes, inverted by Cholesky."""
    x, y = batch["x"], batch["y"]
    h = jnp.tanh(x @ params["w"])
    logits, pull = jax.vjp(lambda h: h @ params["out"], h)
    slope = (jax.nn.softmax(logits) - jax.nn.one_hot(y, 8)) / 16
    inner = pull(slope)[0] * (1 - h * h)

    def solved(a: Any, g: Any, b: Any) -> Any:
        left, right = (jnp.linalg.cholesky(m.T @ m + 0.1 * jnp.eye(m.shape[1])) for m in (a, g))
        once = jax.scipy.linalg.cho_solve((left, True), b)
        return jax.scipy.linalg.cho_solve((right, True), once.T).T

    return {
        "w": params["w"] - 0.1 * solved(x, inner, x.T @ inner),
        "out": params["out"] - 0.1 * solved(h, slope, h.T @ slope),
    }


@net(
    {"w": array(8, 16), "out": array(16, 1)},
    {"x": array(12, 5, 8), "y": array(12, 5), "x2": array(12, 5, 8), "y2": array(12, 5)},
    args={"params/w": "-,model", "batch": P("data")},
    mesh=ODD,
)
def learning_to_learn(params: Tree, batch: Tree) -> Any:
    """For each of twelve tasks two steps of descent, and the gradient through them; six devices."""

    def error(p: Tree, x: Any, y: Any) -> Any:
        return jnp.mean(((jnp.tanh(x @ p["w"]) @ p["out"])[:, 0] - y) ** 2)

    def task(p: Tree, x: Any, y: Any, x2: Any, y2: Any) -> Any:
        for _ in range(2):
            p = jax.tree.map(lambda a, g: a - 0.1 * g, p, jax.grad(error)(p, x, y))
        return error(p, x2, y2)

    def loss(p: Tree) -> Any:
        return jax.vmap(task, (None, 0, 0, 0, 0))(p, batch["x"], batch["y"], batch["x2"], batch["y2"]).mean()

    return jax.value_and_grad(loss)(params)


@net(
    {"w": array(16, 32), "out": array(32, 10)},
    {"w": array(16, 32), "out": array(32, 10)},
    {"x": array(8, 16), "y": ints(8)},
    args={
        "params/w": "-,model",
        "params/out": "model,-",
        "state/w": "-,model",
        "state/out": "model,-",
        "batch": P("data"),
    },
)
def sparse_gradients(params: Tree, state: Tree, batch: Tree) -> Any:
    """Of each gradient the tenth that is largest is used, the rest is kept for later."""

    def loss(p: Any) -> Any:
        return xent(jax.nn.relu(batch["x"] @ p["w"]) @ p["out"], batch["y"])

    grads = jax.tree.map(jnp.add, jax.grad(loss)(params), state)

    def largest(g: Any) -> Any:
        flat = jnp.abs(g).reshape(-1)
        return jnp.where(jnp.abs(g) >= lax.top_k(flat, flat.size // 10)[0][-1], g, 0)

    used = jax.tree.map(largest, grads)
    return descend(params, used), jax.tree.map(jnp.subtract, grads, used)


@net(
    {"w": array(16, 16), "u": array(16, 16)},
    {"x": array(8, 16), "y": array(8, 16)},
    args={"params/w": "-,model", "params/u": "-,model", "batch": "data,-"},
)
def implicit_layer(params: Tree, batch: Tree) -> Any:
    """A fixed point by iteration, and its gradient by another one, not through the first."""

    def cell(p: Tree, z: Any) -> Any:
        return jnp.tanh(z @ p["w"] / 16 + batch["x"] @ p["u"] / 4)

    @jax.custom_vjp
    def fixed(p: Tree) -> Any:
        return lax.fori_loop(0, 12, lambda _, z: cell(p, z), jnp.zeros((8, 16)))

    def forward(p: Tree) -> Any:
        z = fixed(p)
        return z, (p, z)

    def backward(kept: Any, cotangent: Any) -> Any:
        p, z = kept
        _, pull = jax.vjp(lambda z: cell(p, z), z)
        solved = lax.fori_loop(0, 12, lambda _, w: cotangent + pull(w)[0], cotangent)
        return jax.vjp(lambda p: cell(p, z), p)[1](solved)

    fixed.defvjp(forward, backward)
    return jax.value_and_grad(lambda p: jnp.mean((fixed(p) - batch["y"]) ** 2))(params)


@net(
    {"pi": array(16, 6), "v": array(16, 1), "h": array(12, 16)},
    {"x": array(10, 8, 12), "action": ints(10, 8), "reward": array(10, 8), "done": array(10, 8, dtype=jnp.bool_)},
    args={"batch/x": "-,data,-", "batch/action": "-,data", "batch/reward": "-,data", "batch/done": "-,data"},
    mesh=LINE,
)
def actor_and_critic(params: Tree, batch: Tree) -> Any:
    """Advantages by a scan back in time, and a gradient step on the policy and the value."""

    def loss(p: Tree) -> Any:
        h = jnp.tanh(batch["x"] @ p["h"])
        value = (h @ p["v"])[..., 0]

        def back(later: Any, now: Any) -> Any:
            gain, next_value = later
            reward, value, done = now
            delta = reward + 0.99 * next_value * ~done - value
            gain = delta + 0.99 * 0.95 * ~done * gain
            return (gain, value), gain

        zeros = jnp.zeros(8)
        fixed = lax.stop_gradient(value)
        _, gains = lax.scan(back, (zeros, zeros), (batch["reward"], fixed, batch["done"]), reverse=True)
        logs = jax.nn.log_softmax(h @ p["pi"])
        chosen = jnp.take_along_axis(logs, batch["action"][..., None], -1)[..., 0]
        spread = -jnp.sum(jnp.exp(logs) * logs, -1).mean()
        return -jnp.mean(chosen * gains) + 0.5 * jnp.mean((value - fixed - gains) ** 2) - 0.01 * spread

    return descend(params, jax.grad(loss)(params))
