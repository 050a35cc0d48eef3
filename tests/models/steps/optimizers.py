"""One two-layer perceptron under many optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tests.models.steps.step import array, ints, step, xent

PARAMS = {"w1": array(16, 32), "b1": array(32), "w2": array(32, 8), "b2": array(8)}
BATCH = {"x": array(8, 16), "y": ints(8)}
LR = 1e-2
Tree = Any


def loss_of(params: Tree, batch: Tree) -> Any:
    hidden = jax.nn.gelu(batch["x"] @ params["w1"] + params["b1"])
    return xent(hidden @ params["w2"] + params["b2"], batch["y"])


def each(update: Callable[..., Any], count: int, *trees: Tree) -> tuple[Tree, ...]:
    """The results of `update` on every leaf, as `count` trees."""
    made = jax.tree.map(update, *trees)
    inner = jax.tree.structure((0,) * count)
    return tuple(jax.tree.transpose(jax.tree.structure(trees[0]), inner, made))


def adam_leaf(p: Any, m: Any, v: Any, g: Any, t: Any = 1.0) -> tuple[Any, Any, Any]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - LR * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


@step(PARAMS, BATCH)
def sgd(params: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    return jax.tree.map(lambda p, g: p - LR * g, params, grads), loss


@step(PARAMS, PARAMS, BATCH)
def momentum(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
    return jax.tree.map(lambda p, m: p - LR * m, params, state), state, loss


@step(PARAMS, PARAMS, BATCH)
def nesterov(params: Tree, state: Tree, batch: Tree) -> Any:
    ahead = jax.tree.map(lambda p, m: p - LR * 0.9 * m, params, state)
    loss, grads = jax.value_and_grad(loss_of)(ahead, batch)
    state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
    return jax.tree.map(lambda p, m: p - LR * m, params, state), state, loss


@step(PARAMS, {"m": PARAMS, "v": PARAMS, "t": array()}, BATCH)
def adam(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    t = jnp.abs(state["t"]) + 1
    params, m, v = each(lambda p, m, v, g: adam_leaf(p, m, v, g, t), 3, params, state["m"], state["v"], grads)
    return params, {"m": m, "v": v, "t": t}, loss


@step(PARAMS, BATCH)
def adam_first_step(params: Tree, batch: Tree) -> Any:
    """The sign of every gradient: where that is noise, so is the update."""
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    zeros = jax.tree.map(jnp.zeros_like, params)
    return (*each(adam_leaf, 3, params, zeros, zeros, grads), loss)


@step(PARAMS, {"m": PARAMS, "v": PARAMS}, BATCH)
def adamw(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    decayed = jax.tree.map(lambda p: p * (1 - LR * 0.1), params)
    params, m, v = each(adam_leaf, 3, decayed, state["m"], state["v"], grads)
    return params, {"m": m, "v": v}, loss


@step(PARAMS, {"m": PARAMS, "v": PARAMS, "top": PARAMS}, BATCH)
def amsgrad(params: Tree, state: Tree, batch: Tree) -> Any:
    def leaf(p: Any, m: Any, v: Any, top: Any, g: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        top = jnp.maximum(top, v)
        return p - LR * m / (jnp.sqrt(top) + 1e-8), m, v, top

    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    return (*each(leaf, 4, params, state["m"], state["v"], state["top"], grads), loss)


@step(PARAMS, PARAMS, BATCH)
def rmsprop(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    state = jax.tree.map(lambda v, g: 0.9 * v + 0.1 * g**2, state, grads)
    return jax.tree.map(lambda p, v, g: p - LR * g * jax.lax.rsqrt(v + 1e-8), params, state, grads), state, loss


@step(PARAMS, PARAMS, BATCH)
def adagrad(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    state = jax.tree.map(lambda v, g: v + g**2, state, grads)
    return jax.tree.map(lambda p, v, g: p - LR * g / (jnp.sqrt(v) + 1e-7), params, state, grads), state, loss


@step(
    PARAMS,
    {
        "row": {k: array(*v.shape[:-1]) for k, v in PARAMS.items()},
        "column": {k: array(v.shape[-1]) for k, v in PARAMS.items()},
    },
    BATCH,
)
def adafactor(params: Tree, state: Tree, batch: Tree) -> Any:
    def leaf(p: Any, row: Any, column: Any, g: Any) -> Any:
        squared = g * g + 1e-30
        row = 0.99 * row + 0.01 * squared.mean(axis=-1)
        column = 0.99 * column + 0.01 * squared.mean(axis=tuple(range(g.ndim - 1)))
        v = row[..., None] * column / jnp.maximum(row.mean(), 1e-30)
        update = g * jax.lax.rsqrt(v)
        update = update / jnp.maximum(1.0, jnp.sqrt(jnp.mean(update**2)))
        return p - LR * jnp.maximum(1e-3, jnp.sqrt(jnp.mean(p**2))) * update, row, column

    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    return (*each(leaf, 3, params, state["row"], state["column"], grads), loss)


@step(PARAMS, PARAMS, BATCH)
def lion(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    params = jax.tree.map(lambda p, m, g: p - LR * (jnp.sign(0.9 * m + 0.1 * g) + 0.1 * p), params, state, grads)
    return params, jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g, state, grads), loss


@step(PARAMS, BATCH)
def sign_of_gradients(params: Tree, batch: Tree) -> Any:
    grads = jax.grad(loss_of)(params, batch)
    return jax.tree.map(lambda p, g: p - LR * jnp.sign(g), params, grads)


@step({"w": array(16, 8)}, {"left": array(16, 16), "right": array(8, 8)}, BATCH)
def shampoo(params: Tree, state: Tree, batch: Tree) -> Any:
    """Inverse fourth roots by coupled Newton steps."""

    def root(a: Any) -> Any:
        a = a + 1e-2 * jnp.eye(a.shape[0])
        scale = jnp.trace(a)

        def body(_: Any, carry: Any) -> Any:
            m, h = carry
            t = (5 * jnp.eye(a.shape[0]) - m) / 4
            t2 = t @ t
            return t2 @ t2 @ m, h @ t

        _, h = jax.lax.fori_loop(0, 12, body, (a / scale, jnp.eye(a.shape[0])))
        return h / scale**0.25

    g = jax.grad(lambda p: xent(batch["x"] @ p["w"], batch["y"]))(params)["w"]
    left = state["left"] @ state["left"].T + g @ g.T
    right = state["right"] @ state["right"].T + g.T @ g
    return {"w": params["w"] - LR * root(left) @ g @ root(right)}, {"left": left, "right": right}


@step({"w": array(16, 8)}, BATCH)
def shampoo_by_eigenvectors(params: Tree, batch: Tree) -> Any:
    """Inverse roots by eigendecomposition: eigenvectors may turn, their product may not."""
    g = jax.grad(lambda p: xent(batch["x"] @ p["w"], batch["y"]))(params)["w"]

    def root(a: Any) -> Any:
        values, vectors = jnp.linalg.eigh(a + 1e-3 * jnp.eye(a.shape[0]))
        return (vectors * jnp.maximum(values, 1e-6) ** -0.25) @ vectors.T

    return {"w": params["w"] - LR * root(g @ g.T) @ g @ root(g.T @ g)}


@step(PARAMS, {"m": PARAMS, "v": PARAMS}, BATCH)
def lamb(params: Tree, state: Tree, batch: Tree) -> Any:
    def leaf(p: Any, m: Any, v: Any, g: Any) -> Any:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        update = m / (jnp.sqrt(v) + 1e-6) + 0.01 * p
        ratio = jnp.linalg.norm(p) / (jnp.linalg.norm(update) + 1e-9)
        return p - LR * ratio * update, m, v

    loss, grads = jax.value_and_grad(loss_of)(params, batch)
    return (*each(leaf, 3, params, state["m"], state["v"], grads), loss)


@step({"w": array(16, 8)}, {"w": array(16, 8)}, BATCH)
def muon(params: Tree, state: Tree, batch: Tree) -> Any:
    """Momentum made orthogonal by Newton-Schulz steps."""
    g = jax.grad(lambda p: xent(batch["x"] @ p["w"], batch["y"]))(params)["w"]
    m = 0.95 * state["w"] + g
    x = (m / (jnp.linalg.norm(m) + 1e-7)).T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return {"w": params["w"] - LR * x.T}, {"w": m}
