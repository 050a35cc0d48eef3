"""Samplers: chains, particles, bootstraps."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import LINE, ODD, net
from tests.models.steps.step import array, ints

Tree = Any


@net(array(16, 8), array(64, 8), array(64), ints(), args={"chains": "model,-", "x": "data,-", "y": "data"})
def hamiltonian_chains(chains: Any, x: Any, y: Any, seed: Any) -> Any:
    """Three leaps of each chain through a regression's posterior; chains and data split."""
    labels = (y > 0).astype(jnp.float32)

    def energy(w: Any) -> Any:
        logits = x @ w
        return jnp.sum(jax.nn.softplus(logits) - labels * logits) + 0.5 * w @ w

    def leap(carry: Any, key: Any) -> Any:
        w, count = carry
        keys = jax.random.split(key)
        p = jax.random.normal(keys[0], w.shape)
        slope, value = jax.vmap(jax.grad(energy)), jax.vmap(energy)
        new, q = w, p - 0.01 * slope(w)
        for _ in range(3):
            new = new + 0.02 * q
            q = q - 0.02 * slope(new)
        change = value(w) + 0.5 * jnp.sum(p * p, -1) - value(new) - 0.5 * jnp.sum(q * q, -1)
        taken = jnp.log(jax.random.uniform(keys[1], (16,))) < change
        return (jnp.where(taken[:, None], new, w), count + taken), None

    return lax.scan(leap, (chains, jnp.zeros(16, jnp.int32)), jax.random.split(jax.random.key(seed), 3))[0]


@net(array(64, 2), ints(), args={"x": "data,-"}, mesh=LINE)
def random_walks(x: Any, seed: Any) -> Any:
    """Metropolis and Hastings on sixty-four walkers, of which the share accepted is told."""

    def likely(x: Any) -> Any:
        return -0.05 * (x[:, 0] ** 2 - 2) ** 2 - 0.5 * (x[:, 1] - x[:, 0]) ** 2

    def step(x: Any, key: Any) -> Any:
        move, chance = jax.random.split(key)
        new = x + 0.4 * jax.random.normal(move, x.shape)
        taken = jnp.log(jax.random.uniform(chance, (64,))) < likely(new) - likely(x)
        return jnp.where(taken[:, None], new, x), taken.mean()

    return lax.scan(step, x, jax.random.split(jax.random.key(seed), 10))


@net(
    {"w": array(16, 32), "v": array(32, 1)},
    array(16, 16),
    ints(),
    args={"params/w": "-,model", "params/v": "model,-", "x": "data,-"},
)
def langevin_dynamics(params: Tree, x: Any, seed: Any) -> Any:
    """Twelve noisy steps down the energy of a net."""
    slope = jax.grad(lambda x: jnp.sum(jnp.tanh(x @ params["w"]) @ params["v"]) + 0.5 * jnp.sum(x * x))

    def step(i: Any, x: Any) -> Any:
        noise = jax.random.normal(jax.random.fold_in(jax.random.key(seed), i), x.shape)
        return x - 0.05 * slope(x) + 0.3 * noise

    return lax.fori_loop(0, 12, step, x)


@net(array(16, 32, dtype=jnp.bool_), ints(), args={"spins": "data,model"})
def magnets_on_a_board(spins: Any, seed: Any) -> Any:
    """Gibbs sampling of black fields, then of white ones, by rolls."""
    rows, columns = jnp.indices((16, 32))
    black = (rows + columns) % 2 == 0

    def sweep(carry: Any, key: Any) -> Any:
        s = carry
        for field, own in zip((black, ~black), jax.random.split(key), strict=True):
            near = sum(jnp.roll(s, shift, axis) for shift in (1, -1) for axis in (0, 1))
            up = jax.random.uniform(own, s.shape) < jax.nn.sigmoid(0.8 * near)
            s = jnp.where(field, jnp.where(up, 1.0, -1.0), s)
        return s, s.mean()

    return lax.scan(sweep, jnp.where(spins, 1.0, -1.0), jax.random.split(jax.random.key(seed), 5))


@net(array(128, 3), array(8), ints(), args={"particles": "data,-"}, mesh=LINE)
def particle_filter(particles: Any, seen: Any, seed: Any) -> Any:
    """Particles are moved, weighed, and drawn anew by their weights: running sums and a search in them."""

    def step(x: Any, one: Any) -> Any:
        z, key = one
        keys = jax.random.split(key)
        x = 0.9 * x + 0.3 * jax.random.normal(keys[0], x.shape)
        weight = jax.nn.softmax(-0.5 * (x.sum(-1) - z) ** 2)
        places = (jnp.arange(128) + jax.random.uniform(keys[1])) / 128
        x = x[jnp.minimum(jnp.searchsorted(jnp.cumsum(weight), places), 127)]
        return x, (weight[:, None] * x).sum(0)

    return lax.scan(step, particles, (seen, jax.random.split(jax.random.key(seed), 8)))[1]


@net(array(40, 3), ints(), args={"data": "-,-"}, mesh=ODD)
def bootstrap(data: Any, seed: Any) -> Any:
    """Medians and slopes of sixty drawings with replacement, which nothing but their number splits."""
    picks = jax.random.randint(jax.random.key(seed), (60, 40), 0, 40)

    def one(pick: Any) -> Any:
        rows = data[pick]
        x, y = rows[:, 0], rows[:, 1]
        slope = jnp.sum((x - x.mean()) * (y - y.mean())) / jnp.sum((x - x.mean()) ** 2)
        return jnp.median(rows[:, 2]), slope

    medians, slopes = jax.vmap(one)(picks)
    return medians.mean(), jnp.sort(slopes), jnp.std(medians)


@net(array(8, 200), ints(), args={"logits": "data,model"})
def draws_without_replacement(logits: Any, seed: Any) -> Any:
    """Ten of two hundred, by noise of Gumbel and the largest; and how often each pair of words comes."""
    noisy = logits + jax.random.gumbel(jax.random.key(seed), logits.shape)
    _, drawn = lax.top_k(noisy, 10)
    mask = jnp.zeros((8, 200)).at[jnp.arange(8)[:, None], drawn].set(1.0)
    return drawn, mask.T @ mask


@net(array(32, 5), array(32, 5), ints(), args={"wins": "data,-", "losses": "data,-"}, mesh=LINE)
def bandits(wins: Any, losses: Any, seed: Any) -> Any:
    """Thirty-two players of five arms choose by a draw from what they believe of each, twelve times."""

    def play(carry: Any, key: Any) -> Any:
        a, b = carry
        keys = jax.random.split(key)
        mean = a / (a + b)
        spread = jnp.sqrt(mean * (1 - mean) / (a + b + 1))
        arm = jnp.argmax(mean + spread * jax.random.normal(keys[0], a.shape), -1)
        won = jax.random.uniform(keys[1], (32,)) < 0.2 + 0.15 * arm
        chosen = jax.nn.one_hot(arm, 5)
        return (a + chosen * won[:, None], b + chosen * ~won[:, None]), won.mean()

    return lax.scan(play, (1 + jnp.abs(wins), 1 + jnp.abs(losses)), jax.random.split(jax.random.key(seed), 12))


@net(array(16, 10), ints(), args={"x": "data,-"}, mesh=LINE)
def annealed_importance(x: Any, seed: Any) -> Any:
    """From a wide distribution to a narrow one in ten steps, weights gathered on the way."""

    def narrow(x: Any) -> Any:
        return -2 * jnp.sum((x - 1) ** 2, -1)

    def wide(x: Any) -> Any:
        return -0.5 * jnp.sum(x * x, -1)

    def step(carry: Any, one: Any) -> Any:
        x, weight = carry
        beta, key = one
        weight = weight + 0.1 * (narrow(x) - wide(x))
        keys = jax.random.split(key)

        def mixed(x: Any) -> Any:
            return (1 - beta) * wide(x) + beta * narrow(x)

        new = x + 0.2 * jax.random.normal(keys[0], x.shape)
        taken = jnp.log(jax.random.uniform(keys[1], (16,))) < mixed(new) - mixed(x)
        return (jnp.where(taken[:, None], new, x), weight), None

    betas = jnp.linspace(0, 1, 10)
    (x, weight), _ = lax.scan(step, (x, jnp.zeros(16)), (betas, jax.random.split(jax.random.key(seed), 10)))
    return jax.nn.logsumexp(weight) - jnp.log(16.0), x
