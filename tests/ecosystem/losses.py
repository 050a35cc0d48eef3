"""What is trained, and what is run: losses of optax and chex states, reinforcement learning, generation."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program


@program("optax", long=True)
def loss_of_alignments() -> Case:
    import optax

    def loss(logits: Any, labels: Any, lengths: Any) -> Any:
        padding = (jnp.arange(logits.shape[1]) >= lengths[:, None]).astype(jnp.float32)
        return optax.ctc_loss(logits, padding, labels, (labels == 0).astype(jnp.float32)).mean()

    labels = jnp.array([[1, 2, 0], [3, 3, 1], [2, 0, 0], [1, 3, 2]])
    args = (batch(4, 8, 4), labels, jnp.array([8, 8, 5, 7]))
    return Case(jax.value_and_grad(loss), args, {"logits": "data", "labels": "data"})


@program("optax", long=True)
def loss_of_pairs() -> Case:
    import optax

    def loss(params: Any, images: Any, texts: Any) -> Any:
        def unit(x: Any) -> Any:
            return x / jnp.linalg.norm(x, axis=-1, keepdims=True)

        one, other = unit(images @ params["image"]), unit(texts @ params["text"])
        logits = one @ other.T * jnp.exp(params["temperature"])
        at = jnp.arange(len(images))
        cross = optax.softmax_cross_entropy_with_integer_labels
        return (cross(logits, at) + cross(logits.T, at)).mean() / 2

    params = {"image": batch(WIDTH, 16), "text": batch(WIDTH, 16, seed=1), "temperature": jnp.array(0.1)}
    args = (params, batch(seed=2), batch(seed=3))
    shardings = {"images": "data", "texts": "data", "params/(image|text)": P(None, "model")}
    return Case(jax.value_and_grad(loss), args, shardings)


@program("flax", "optax", long=True)
def variational_autoencoder_step() -> Case:
    import flax.linen as nn
    import optax

    encoder = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(8)])
    decoder = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(WIDTH)])
    params = {
        "encoder": encoder.init(jax.random.key(0), batch()),
        "decoder": decoder.init(jax.random.key(1), batch(BATCH, 4)),
    }

    def loss(params: Any, x: Any, key: Any) -> Any:
        mean, log_scale = jnp.split(encoder.apply(params["encoder"], x), 2, axis=-1)
        code = mean + jnp.exp(log_scale) * jax.random.normal(key, mean.shape)
        logits = decoder.apply(params["decoder"], code)
        divergence = 0.5 * (jnp.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale).sum(-1)
        return (optax.sigmoid_binary_cross_entropy(logits, (x > 0).astype(x.dtype)).sum(-1) + divergence).mean()

    args = (params, batch(), jax.random.key(2))
    return Case(jax.value_and_grad(loss), args, {"x": "data", "layers_0/kernel$": P(None, "model")})


@program("equinox", long=True)
def diffusion_loss() -> Case:
    import equinox as eqx

    model = eqx.nn.MLP(WIDTH + 1, WIDTH, 32, 1, activation=jax.nn.silu, key=jax.random.key(0))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model: Any, x: Any, key: Any) -> Any:
        def one(x: Any, key: Any) -> Any:
            of_time, of_noise = jax.random.split(key)
            time = jax.random.uniform(of_time, (1,))
            noise = jax.random.normal(of_noise, x.shape)
            noisy = jnp.cos(time) * x + jnp.sin(time) * noise
            return ((model(jnp.concatenate([noisy, time])) - noise) ** 2).sum()

        return jax.vmap(one)(x, jax.random.split(key, len(x))).mean()

    return Case(loss, (model, batch(), jax.random.key(1)), {"x": "data", "model/layers/0/weight": "model"})


@program("haiku", "optax", long=True)
def adversarial_step() -> Case:
    import haiku as hk
    import optax

    generator = hk.without_apply_rng(hk.transform(lambda z: hk.nets.MLP([32, WIDTH])(z)))
    critic = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([32, 1], activation=jax.nn.leaky_relu)(x)))
    made, judged = generator.init(jax.random.key(0), batch(BATCH, 4)), critic.init(jax.random.key(1), batch())
    optimizer = optax.adam(1e-3, b1=0.5)

    def step(made: Any, judged: Any, states: Any, x: Any, z: Any) -> Any:
        def of_critic(judged: Any) -> Any:
            fake = jax.lax.stop_gradient(generator.apply(made, z))
            return (jax.nn.softplus(-critic.apply(judged, x)) + jax.nn.softplus(critic.apply(judged, fake))).mean()

        def of_generator(made: Any) -> Any:
            return jax.nn.softplus(-critic.apply(judged, generator.apply(made, z))).mean()

        updates, first = optimizer.update(jax.grad(of_critic)(judged), states[0])
        judged = optax.apply_updates(judged, updates)
        updates, second = optimizer.update(jax.grad(of_generator)(made), states[1])
        return optax.apply_updates(made, updates), judged, (first, second)

    args = (made, judged, (optimizer.init(judged), optimizer.init(made)), batch(), batch(BATCH, 4, seed=1))
    shardings = {"^(x|z)$": "data", "^(made|judged)/.*linear_0/w$": P(None, "model")}
    return Case(step, args, shardings, {"donate_argnums": (0, 1, 2)})


@program("chex", "distrax", "optax", long=True)
def policy_gradient_loss() -> Case:
    import chex
    import distrax

    class Fields:
        observed: Any
        actions: Any
        rewards: Any
        logs: Any

    rollout_of: Any = chex.dataclass(Fields, frozen=True)

    def advantages(rewards: Any, values: Any) -> Any:
        deltas = rewards + 0.99 * jnp.roll(values, -1, 1) - values
        return jax.lax.scan(lambda a, d: ((b := d + 0.94 * a), b), jnp.zeros(len(values)), deltas.T, reverse=True)[1].T

    def loss(params: Any, rollout: Any) -> Any:
        chex.assert_equal_shape([rollout.rewards, rollout.logs])
        hidden = jnp.tanh(rollout.observed @ params["hidden"])
        policy = distrax.Categorical(logits=hidden @ params["policy"])
        values = (hidden @ params["value"])[..., 0]
        gains = jax.lax.stop_gradient(advantages(rollout.rewards, values))
        ratio = jnp.exp(policy.log_prob(rollout.actions) - rollout.logs)
        clipped = jnp.minimum(ratio * gains, jnp.clip(ratio, 0.8, 1.2) * gains)
        return -clipped.mean() + 0.5 * ((values - gains) ** 2).mean() - 0.01 * policy.entropy().mean()

    params = {"hidden": batch(WIDTH, 16), "policy": batch(16, 4) / 4, "value": batch(16, 1) / 4}
    actions = jnp.arange(8 * 6).reshape(8, 6) % 4
    rollout = rollout_of(observed=batch(8, 6, WIDTH), actions=actions, rewards=batch(8, 6), logs=jnp.full((8, 6), -1.4))
    shardings = {"rollout/.*": "data", "params/hidden": P(None, "model")}
    return Case(jax.value_and_grad(loss), (params, rollout), shardings)


@program("chex", "optax", long=True)
def value_learning_step() -> Case:
    import chex
    import optax

    class Fields:
        online: Any
        target: Any
        state: Any
        steps: Any

    learner_of: Any = chex.dataclass(Fields)

    optimizer = optax.chain(optax.clip(1.0), optax.adagrad(1e-2))

    def learn(learner: Any, before: Any, actions: Any, rewards: Any, after: Any) -> Any:
        def loss(w: Any) -> Any:
            best = jnp.argmax(after @ w, -1)
            goal = rewards + 0.9 * jnp.take_along_axis(after @ learner.target, best[:, None], 1)[:, 0]
            taken = jnp.take_along_axis(before @ w, actions[:, None], 1)[:, 0]
            return optax.huber_loss(taken, jax.lax.stop_gradient(goal)).mean()

        updates, state = optimizer.update(jax.grad(loss)(learner.online), learner.state)
        online = optax.apply_updates(learner.online, updates)
        target = optax.periodic_update(online, learner.target, learner.steps, 10)
        return learner_of(online=online, target=target, state=state, steps=learner.steps + 1)

    w = batch(WIDTH, 4)
    learner = learner_of(online=w, target=w + 0.1, state=optimizer.init(w), steps=jnp.array(10))
    args = (learner, batch(), jnp.arange(BATCH) % 4, jnp.ones(BATCH), batch(seed=1))
    shardings = {"before": "data", "after": "data", "learner/(online|target)": "model"}
    return Case(learn, args, shardings)


@program("flax", long=True)
def beam_search() -> Case:
    import flax.linen as nn

    words, beams, steps = 16, 4, 5
    table, cell, out = nn.Embed(words, 8), nn.GRUCell(8), nn.Dense(words)

    def search(params: Any, start: Any) -> Any:
        def step(state: Any, at: Any) -> Any:
            scores, tokens, carry = state
            carry, y = cell.apply(params["cell"], carry, table.apply(params["table"], tokens[:, :, at]))
            joint = scores[..., None] + jax.nn.log_softmax(out.apply(params["out"], y))
            scores, best = jax.lax.top_k(joint.reshape(len(joint), -1), beams)
            of = best // words
            tokens = jnp.take_along_axis(tokens, of[..., None], 1).at[:, :, at + 1].set(best % words)
            return (scores, tokens, jnp.take_along_axis(carry, of[..., None], 1)), scores.max(-1)

        scores = jnp.where(jnp.arange(beams) == 0, 0.0, -1e9) + jnp.zeros((len(start), 1))
        tokens = jnp.zeros((len(start), beams, steps + 1), jnp.int32).at[:, :, 0].set(start[:, None])
        return jax.lax.scan(step, (scores, tokens, jnp.zeros((len(start), beams, 8))), jnp.arange(steps))

    start = jnp.arange(8) % words
    embedded = batch(8, 8)
    params = {
        "table": table.init(jax.random.key(0), start),
        "cell": cell.init(jax.random.key(1), embedded, embedded),
        "out": out.init(jax.random.key(2), embedded),
    }
    return Case(search, (params, start), {"start": "data", "out/params/kernel$": P(None, "model")})
