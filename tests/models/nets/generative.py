"""Generative models: diffusion, flows, adversaries, codes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from tests.models.nets.convolutional import conv, up
from tests.models.nets.net import ODD, Split, net
from tests.models.steps.layers import adam_from_zero, descend
from tests.models.steps.step import array, ints

Tree = Any
DENOISER = {"in": array(3, 3, 4, 16), "time": array(8, 16), "mid": array(3, 3, 16, 16), "out": array(3, 3, 16, 4)}
CHAINED: Split = {
    "params/in": "-,-,-,model",
    "params/time": "-,model",
    "params/mid": "-,-,model,-",
    "params/out": "-,-,model,-",
}


def denoise(p: Tree, x: Any, t: Any) -> Any:
    """The noise in images, by a small net that is told the time."""
    waves = t[:, None] * 2.0 ** jnp.arange(4)
    code = jnp.concatenate([jnp.sin(waves), jnp.cos(waves)], -1) @ p["time"]
    h = jax.nn.silu(conv(x, p["in"]) / 6 + code[:, None, None])
    return conv(h + jax.nn.silu(conv(h, p["mid"]) / 12), p["out"]) / 12


def kept(t: Any) -> Any:
    """How much of the image is left at a time, by a cosine."""
    return jnp.cos((t + 0.01) / 1.02 * jnp.pi / 2)[:, None, None, None] ** 2


@net(DENOISER, {"x": array(8, 8, 8, 4), "seed": ints()}, args={"batch/x": "data,model,-,-"})
def diffusion_training(params: Tree, batch: Tree) -> Any:
    """A step: a time and noise for each image, rows of which are split."""
    keys = jax.random.split(jax.random.key(batch["seed"]))
    t = jax.random.uniform(keys[0], (8,))
    noise = jax.random.normal(keys[1], batch["x"].shape)
    noisy = jnp.sqrt(kept(t)) * batch["x"] + jnp.sqrt(1 - kept(t)) * noise
    value, grads = jax.value_and_grad(lambda p: jnp.mean((denoise(p, noisy, t) - noise) ** 2))(params)
    return adam_from_zero(params, grads), value


@net(DENOISER, array(8, 8, 8, 4), args={**CHAINED, "x": "data,-,-,-"})
def implicit_diffusion(params: Tree, x: Any) -> Any:
    """Four deterministic steps from noise to an image, channels split."""

    def step(x: Any, t: Any) -> Any:
        now, then = jnp.full(8, t), jnp.full(8, t - 0.25)
        noise = denoise(params, x, now)
        clean = jnp.clip((x - jnp.sqrt(1 - kept(now)) * noise) / jnp.sqrt(kept(now)), -1, 1)
        return jnp.sqrt(kept(then)) * clean + jnp.sqrt(1 - kept(then)) * noise, None

    return lax.scan(step, x, jnp.linspace(1.0, 0.25, 4))[0]


@net(DENOISER, array(4, 8, 8, 4), array(16), ints(), args={**CHAINED, "x": "data,-,-,-"})
def guided_diffusion(params: Tree, x: Any, label: Any, seed: Any) -> Any:
    """Both with and without a condition, in one batch of twice the size, and noise added again."""
    told = {**params, "time": params["time"] + label / 10}
    both = jnp.stack([denoise(params, x, jnp.full(4, 0.5)), denoise(told, x, jnp.full(4, 0.5))])
    noise = both[0] + 3.0 * (both[1] - both[0])
    return x - 0.1 * noise + 0.05 * jax.random.normal(jax.random.key(seed), x.shape)


@net(
    {"w1": array(17, 64), "w2": array(64, 16)},
    {"x": array(16, 16), "noise": array(16, 16), "t": array(16)},
    args={"params/w1": "-,model", "params/w2": "model,-", "batch": P("data")},
)
def flow_matching(params: Tree, batch: Tree) -> Any:
    """A training step on straight lines from noise to data, and then the way from noise in five steps."""

    def speed(p: Tree, x: Any, t: Any) -> Any:
        return jnp.tanh(jnp.concatenate([x, t[:, None]], -1) @ p["w1"]) @ p["w2"]

    t = jax.nn.sigmoid(batch["t"])
    at = t[:, None] * batch["x"] + (1 - t[:, None]) * batch["noise"]
    goal = batch["x"] - batch["noise"]
    params = descend(params, jax.grad(lambda p: jnp.mean((speed(p, at, t) - goal) ** 2))(params))

    def step(i: Any, x: Any) -> Any:
        return x + 0.2 * speed(params, x, jnp.full(16, i / 5.0))

    return params, lax.fori_loop(0, 5, step, batch["noise"])


@net(
    {"w1": array(12, 24), "w2": array(24, 12)},
    {"x": array(9, 12), "probe": array(9, 12)},
    args={"params/w1": "-,model", "params/w2": "model,-", "batch": "data,-"},
    mesh=ODD,
)
def sliced_score_matching(params: Tree, batch: Tree) -> Any:
    """A score, and its divergence along random directions by forward derivatives; six devices."""

    def loss(p: Tree) -> Any:
        def score(x: Any) -> Any:
            return jnp.tanh(x @ p["w1"]) @ p["w2"]

        value, along = jax.jvp(score, (batch["x"],), (batch["probe"],))
        return jnp.mean(jnp.sum(along * batch["probe"], -1) + 0.5 * jnp.sum(value**2, -1))

    return jax.value_and_grad(loss)(params)


@net(
    [{"w": array(8, 32), "scale": array(32, 8), "shift": array(32, 8)}] * 3,
    array(16, 16),
    args={"params/0/w": "-,model", "params/1/w": "-,model", "params/2/w": "-,model", "x": "data,-"},
)
def coupling_flow(params: Tree, x: Any) -> Any:
    """A flow that can be inverted: how likely data are, and draws back through it."""
    a, b = jnp.split(x, 2, -1)
    volume = jnp.zeros(16)
    for p in params:
        h = jnp.tanh(a @ p["w"])
        scale = jnp.tanh(h @ p["scale"])
        a, b, volume = b * jnp.exp(scale) + h @ p["shift"], a, volume + scale.sum(-1)
    likely = -0.5 * jnp.sum(a * a + b * b, -1) + volume
    for p in reversed(params):
        h = jnp.tanh(b @ p["w"])
        a, b = b, (a - h @ p["shift"]) * jnp.exp(-jnp.tanh(h @ p["scale"]))
    return likely, jnp.concatenate([a, b], -1)


@net(
    {
        "k": array(4, 4, 4, 8),
        "mean": array(8 * 16, 8),
        "spread": array(8 * 16, 8),
        "back": array(8, 8 * 16),
        "u": array(4, 4, 8, 4),
    },
    {"x": array(8, 8, 8, 4), "seed": ints()},
    args={"params/back": "-,model", "batch/x": "data,-,-,-"},
)
def convolutional_autoencoder(params: Tree, batch: Tree) -> Any:
    """A variational one: a training step."""

    def loss(p: Tree) -> Any:
        h = jax.nn.relu(conv(batch["x"], p["k"], 2)).reshape(8, -1)
        mean, spread = h @ p["mean"] / 11, h @ p["spread"] / 11
        code = mean + jnp.exp(spread / 2) * jax.random.normal(jax.random.key(batch["seed"]), mean.shape)
        image = up(jax.nn.relu(code @ p["back"]).reshape(8, 4, 4, 8), p["u"])
        return jnp.mean((image - batch["x"]) ** 2) + 0.1 * jnp.mean(mean**2 + jnp.exp(spread) - spread - 1)

    value, grads = jax.value_and_grad(loss)(params)
    return descend(params, grads), value


@net(
    {
        "make": {"w": array(16, 4 * 4 * 16), "u": array(4, 4, 16, 4)},
        "judge": {"k": array(4, 4, 4, 16), "w": array(4 * 4 * 16, 1)},
    },
    {"noise": array(8, 16), "real": array(8, 8, 8, 4)},
    args={"params/make/w": "-,model", "params/judge/w": "model,-", "batch": P("data")},
)
def adversaries(params: Tree, batch: Tree) -> Any:
    """One makes images by transposed convolutions, the other judges them; a penalty on the judge's slope."""

    def image(p: Tree) -> Any:
        return jnp.tanh(up(jax.nn.relu(batch["noise"] @ p["w"]).reshape(8, 4, 4, 16), p["u"]))

    def score(p: Tree, x: Any) -> Any:
        return (jax.nn.leaky_relu(conv(x, p["k"], 2)).reshape(8, -1) @ p["w"])[:, 0]

    def judge(p: Tree) -> Any:
        slope = jax.grad(lambda x: score(p, x).sum())(batch["real"])
        penalty = jnp.mean(jnp.sum(slope**2, (1, 2, 3)))
        return jnp.mean(score(p, image(params["make"])) - score(p, batch["real"])) + 0.1 * penalty

    grads = {
        "judge": jax.grad(judge)(params["judge"]),
        "make": jax.grad(lambda p: -score(params["judge"], image(p)).mean())(params["make"]),
    }
    return descend(params, grads)


@net(
    {"in": array(16, 8), "codes": array(32, 8), "out": array(8, 16)},
    array(16, 6, 16),
    args={"params/codes": "model,-", "x": "data,-,-"},
)
def quantized_codes(params: Tree, x: Any) -> Any:
    """Each vector becomes the nearest of a table that is split; gradients go straight through."""

    def loss(p: Tree) -> Any:
        h = x @ p["in"]
        far = jnp.sum(h * h, -1)[..., None] - 2 * h @ p["codes"].T + jnp.sum(p["codes"] ** 2, -1)
        which = jnp.argmin(far, -1)
        code = p["codes"][which]
        through = h + lax.stop_gradient(code - h)
        near = jnp.mean((lax.stop_gradient(h) - code) ** 2 + 0.25 * (h - lax.stop_gradient(code)) ** 2)
        return jnp.mean((through @ p["out"] - x) ** 2) + near, which

    return jax.value_and_grad(loss, has_aux=True)(params)


@net(
    {"w": array(6, 16, 16), "b": array(6, 16)},
    array(8, 16),
    args={"params/w": "-,-,model", "noise": "data,-"},
)
def autoregressive_pixels(params: Tree, noise: Any) -> Any:
    """Masked weights let each number see only those before; sixteen are drawn one after the other."""
    order = jnp.tril(jnp.ones((16, 16)), -1).T

    def logits(x: Any) -> Any:
        for w, b in zip(params["w"], params["b"], strict=True):
            x = x + jnp.tanh(x @ (w * order) / 4 + b)
        return x

    def draw(i: Any, x: Any) -> Any:
        return x.at[:, i].set(jnp.tanh(logits(x)[:, i] + noise[:, i]))

    return lax.fori_loop(0, 16, draw, jnp.zeros((8, 16)))
