"""How steps are put together: loops, recomputation, adapters, clipping, accumulation, two networks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.steps.layers import adam_from_zero, attend, descend
from tests.models.steps.optimizers import BATCH, PARAMS, adam_leaf, each, loss_of
from tests.models.steps.step import array, ints, step, xent

Tree = Any
LAYER = {"q": (16, 16), "k": (16, 16), "v": (16, 16), "o": (16, 16), "up": (16, 32), "down": (32, 16), "scale": (16,)}


def stacked(count: int) -> Tree:
    return {name: array(count, *shape) for name, shape in LAYER.items()}


def transformer(params: Tree, x: Any, remat: bool = False) -> Any:
    def layer(h: Any, p: Tree) -> Any:
        h = h + attend(
            p,
            h * lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * (1 + p["scale"]),
            jnp.tril(jnp.ones((6, 6), bool)),
        )
        return h + jax.nn.gelu(h @ p["up"]) @ p["down"], None

    return lax.scan(jax.checkpoint(layer) if remat else layer, x, params)[0]


@step(PARAMS, BATCH)
def remat(params: Tree, batch: Tree) -> Any:
    return adam_from_zero(params, jax.grad(jax.checkpoint(loss_of))(params, batch))


@step(stacked(6), {"x": array(4, 6, 16)})
def scan_of_six_layers(params: Tree, batch: Tree) -> Any:
    return adam_from_zero(params, jax.grad(lambda p: jnp.mean(transformer(p, batch["x"]) ** 2))(params))


@step(stacked(12), stacked(12), {"x": array(4, 6, 16)})
def scan_of_twelve_layers(params: Tree, state: Tree, batch: Tree) -> Any:
    loss, grads = jax.value_and_grad(lambda p: jnp.mean(transformer(p, batch["x"], remat=True) ** 2))(params)
    state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
    return descend(params, state), state, loss


@step({"w": array(16, 16), "a": array(16, 4), "b": array(4, 16)}, {"x": array(8, 16), "y": array(8, 16)})
def lora(params: Tree, batch: Tree) -> Any:
    """Only the adapters learn."""
    adapters = {name: params[name] for name in "ab"}

    def loss(p: Tree) -> Any:
        return jnp.mean((batch["x"] @ (params["w"] + 2.0 * p["a"] @ p["b"]) - batch["y"]) ** 2)

    return adam_from_zero(adapters, jax.grad(loss)(adapters))


@step({"a": array(16, 4), "w": array(16, 16)}, {"x": array(8, 16)})
def lora_from_zero(params: Tree, batch: Tree) -> Any:
    """At the start b is zero, and so is the gradient of a: exactly."""

    def loss(p: Tree) -> Any:
        return jnp.mean((batch["x"] @ (params["w"] + p["a"] @ p["b"])) ** 2)

    adapters = {"a": params["a"], "b": jnp.zeros((4, 16))}
    grads = jax.grad(loss)(adapters)
    return adam_from_zero(adapters, grads), grads


@step(PARAMS, BATCH)
def clipped_by_norm(params: Tree, batch: Tree) -> Any:
    grads = jax.grad(loss_of)(params, batch)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
    return descend(params, jax.tree.map(lambda g: g * jnp.minimum(1.0, 0.01 / norm), grads)), norm


@step(PARAMS, BATCH)
def clipped_by_value(params: Tree, batch: Tree) -> Any:
    grads = jax.grad(loss_of)(params, batch)
    return descend(params, jax.tree.map(lambda g: jnp.clip(g, -1e-3, 1e-3), grads))


@step(PARAMS, {"x": array(8, 4, 16), "y": ints(8, 4)})
def accumulated(params: Tree, batch: Tree) -> Any:
    def body(total: Tree, part: Tree) -> Any:
        return jax.tree.map(jnp.add, total, jax.grad(loss_of)(params, part)), None

    parts = jax.tree.map(lambda leaf: leaf.swapaxes(0, 1), batch)
    total, _ = lax.scan(body, jax.tree.map(jnp.zeros_like, params), parts)
    return adam_from_zero(params, total)


@step(PARAMS, BATCH)
def private_gradients(params: Tree, batch: Tree) -> Any:
    """Each example's gradient is clipped before they are summed."""

    def one(x: Any, y: Any) -> Any:
        grads = jax.grad(loss_of)(params, {"x": x[None], "y": y[None]})
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        return jax.tree.map(lambda g: g / jnp.maximum(norm, 1.0), grads)

    return descend(params, jax.tree.map(lambda g: g.mean(0), jax.vmap(one)(batch["x"], batch["y"])))


@step(PARAMS, PARAMS, BATCH)
def averaged_weights(params: Tree, state: Tree, batch: Tree) -> Any:
    params = descend(params, jax.grad(loss_of)(params, batch))
    return params, jax.tree.map(lambda a, p: 0.999 * a + 0.001 * p, state, params)


@step({"image": array(16, 8), "text": array(16, 8), "t": array()}, {"image": array(8, 16), "text": array(8, 16)})
def contrastive(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        a, b = (batch[k] @ p[k] for k in ("image", "text"))
        a, b = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
        logits = a @ b.T * jnp.exp(p["t"])
        return xent(logits, jnp.arange(8)) + xent(logits.T, jnp.arange(8))

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"w": array(16, 8), "v": array(4, 16)}, {"x": array(8, 16), "seed": ints()})
def variational(params: Tree, batch: Tree) -> Any:
    """A code drawn from a normal distribution, and its divergence."""

    def loss(p: Tree) -> Any:
        mean, spread = jnp.split(batch["x"] @ p["w"], 2, axis=-1)
        code = mean + jnp.exp(spread / 2) * jax.random.normal(jax.random.key(batch["seed"]), mean.shape)
        return jnp.mean((code @ p["v"] - batch["x"]) ** 2) + jnp.mean(mean**2 + jnp.exp(spread) - spread - 1)

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"made": array(8, 16), "judge": array(16, 1)}, {"noise": array(8, 8), "real": array(8, 16)})
def two_networks(params: Tree, batch: Tree) -> Any:
    def score(p: Tree, x: Any) -> Any:
        return jax.nn.softplus(-(x @ p["judge"])).mean()

    def judge(p: Tree) -> Any:
        fake = lax.stop_gradient(jnp.tanh(batch["noise"] @ p["made"]))
        return score(p, batch["real"]) - score(p, fake)

    def make(p: Tree) -> Any:
        return score({"judge": lax.stop_gradient(p["judge"])}, jnp.tanh(batch["noise"] @ p["made"]))

    grads = jax.tree.map(jnp.add, jax.grad(judge)(params), jax.grad(make)(params))
    return adam_from_zero(params, grads)


@step(
    {"pi": array(16, 4), "value": array(16, 1)},
    {"x": array(8, 16), "action": ints(8), "old": array(8), "gain": array(8)},
)
def clipped_policy(params: Tree, batch: Tree) -> Any:
    def loss(p: Tree) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(batch["x"] @ p["pi"]), batch["action"][:, None] % 4, 1)[:, 0]
        ratio = jnp.exp(chosen - batch["old"])
        gain = (batch["gain"] - batch["gain"].mean()) / (batch["gain"].std() + 1e-8)
        value = jnp.mean((batch["x"] @ p["value"])[:, 0] - batch["gain"]) ** 2
        return -jnp.mean(jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)) + value

    return adam_from_zero(params, jax.grad(loss)(params))


@step({"w": array(16, 16)}, {"u": array(16)}, {"x": array(8, 16)})
def spectral_norm(params: Tree, state: Tree, batch: Tree) -> Any:
    u = state["u"]
    for _ in range(3):
        v = params["w"].T @ u
        v = v / jnp.linalg.norm(v)
        u = params["w"] @ v
        u = u / jnp.linalg.norm(u)
    u, v = lax.stop_gradient((u, v))
    return descend(params, jax.grad(lambda p: jnp.mean(jnp.tanh(batch["x"] @ p["w"] / (u @ p["w"] @ v))))(params)), u


@step({"w": array(16, 16), "b": array(16)}, {"x": array(8, 16)})
def fixed_point(params: Tree, batch: Tree) -> Any:
    """Iterated until it stands still: how often depends on rounding."""
    start = jnp.zeros((8, 16))

    def body(carry: Any) -> Any:
        z, _, count = carry
        new = jnp.tanh(z @ params["w"] * 0.3 + batch["x"] + params["b"])
        return new, jnp.max(jnp.abs(new - z)), count + 1

    z, gap, count = lax.while_loop(lambda c: (c[1] > 1e-3) & (c[2] < 50), body, (start, jnp.float32(1), 0))
    return z, gap, count


@step(PARAMS, {"mode": ints()}, BATCH)
def one_of_two_losses(params: Tree, state: Tree, batch: Tree) -> Any:
    def square(p: Tree) -> Any:
        return jnp.mean((jnp.tanh(batch["x"] @ p["w1"]) @ p["w2"]) ** 2)

    def loss(p: Tree) -> Any:
        return lax.cond(state["mode"] % 2 == 0, square, lambda p: loss_of(p, batch), p)

    return adam_from_zero(params, jax.grad(loss)(params))


@step(PARAMS, {"m": PARAMS, "v": PARAMS}, {"x": array(3, 8, 16), "y": ints(3, 8)})
def three_steps_in_a_loop(params: Tree, state: Tree, batch: Tree) -> Any:
    """Adam from zero, three times: the noise of the first step goes into the next."""

    def body(carry: Any, part: Tree) -> Any:
        p, m, v, t = carry
        p, m, v = each(lambda p, m, v, g: adam_leaf(p, m, v, g, t), 3, p, m, v, jax.grad(loss_of)(p, part))
        return (p, m, v, t + 1), None

    (params, m, v, _), _ = lax.scan(body, (params, state["m"], state["v"], 1.0), batch)
    return params, m, v
