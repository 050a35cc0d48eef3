"""Models of equinox and haiku: state, recurrence, ensembles, transformers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import WIDTH, Case, batch, program


@program("equinox")
def equinox_with_state() -> Case:
    import equinox as eqx

    class Model(eqx.Module):
        first: Any
        norm: Any

        def __call__(self, x: Any, state: Any) -> Any:
            x, state = self.norm(self.first(x), state)
            return jax.nn.relu(x), state

    def make(key: Any) -> Any:
        return Model(eqx.nn.Linear(WIDTH, 16, key=key), eqx.nn.BatchNorm(16, "batch", mode="batch"))

    model, state = eqx.nn.make_with_state(make)(jax.random.key(0))

    @eqx.filter_jit
    def apply(model: Any, state: Any, x: Any) -> Any:
        return jax.vmap(model, (0, None), (0, None), axis_name="batch")(x, state)

    return Case(apply, (model, state, batch()), {"x": "data", "model/first/weight": "model"})


@program("equinox", long=True)
def equinox_recurrent() -> Case:
    import equinox as eqx

    params, static = eqx.partition(eqx.nn.GRUCell(WIDTH, 16, key=jax.random.key(0)), eqx.is_array)

    def apply(params: Any, x: Any) -> Any:
        cell = eqx.combine(params, static)

        def run(row: Any) -> Any:
            return jax.lax.scan(lambda h, x: (cell(x, h), h.sum()), jnp.zeros(16), row)

        return jax.vmap(run)(x)

    return Case(apply, (params, batch(4, 5, WIDTH)), {"x": "data", "weight_[ih]h$": "model"})


@program("equinox")
def equinox_ensemble() -> Case:
    import equinox as eqx

    models = eqx.filter_vmap(lambda key: eqx.nn.MLP(WIDTH, 2, 8, 1, key=key))(jax.random.split(jax.random.key(0), 4))

    @eqx.filter_jit
    def apply(models: Any, x: Any) -> Any:
        one = eqx.filter_vmap(lambda model, x: jax.vmap(model)(x), in_axes=(eqx.if_array(0), None))
        return jax.nn.logsumexp(one(models, x), axis=0)

    return Case(apply, (models, batch()), {"x": "data", "(weight|bias)$": P("model")})


@program("equinox", "optax", long=True)
def equinox_training_step() -> Case:
    import equinox as eqx
    import optax

    key = jax.random.key(0)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(4, 8, 3, key=key),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Dropout(0.5),
            eqx.nn.Linear(72, 4, key=key),
        ]
    )
    optimizer = optax.adabelief(1e-3)

    @eqx.filter_jit
    def step(model: Any, state: Any, x: Any, labels: Any, key: Any) -> Any:
        @eqx.filter_value_and_grad
        def loss(model: Any) -> Any:
            logits = jax.vmap(model)(x, key=jax.random.split(key, len(x)))
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradient = loss(model)
        updates, state = optimizer.update(gradient, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state, value

    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    args = (model, state, batch(8, 4, 8, 8), jnp.arange(8) % 4, jax.random.key(1))
    return Case(step, args, {"x": "data", "labels": "data", "model/layers/5/weight": P(None, "model")})


@program("haiku", long=True)
def haiku_transformer() -> Case:
    import haiku as hk

    def block(x: Any) -> Any:
        mask = jnp.tril(jnp.ones((1, 1, x.shape[1], x.shape[1])))
        y = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(4, 4, w_init=hk.initializers.VarianceScaling(), model_size=16)(y, y, y, mask)
        y = hk.LayerNorm(-1, True, True)(x)
        return x + hk.dropout(hk.next_rng_key(), 0.1, hk.nets.MLP([32, 16], activation=jax.nn.gelu)(y))

    net = hk.transform(block)
    x = batch(4, 6, 16)
    params = net.init(jax.random.key(0), x)

    def apply(params: Any, key: Any, x: Any) -> Any:
        return net.apply(params, key, x)

    shardings = {"x": "data", "(query|key|value)/w$": P(None, "model"), "linear_0/w$": P(None, "model")}
    return Case(apply, (params, jax.random.key(1), x), shardings)


@program("haiku", long=True)
def haiku_stacked_layers() -> Case:
    import haiku as hk

    def stacked(x: Any) -> Any:
        return hk.experimental.layer_stack(3)(lambda x: x + jnp.tanh(hk.Linear(WIDTH)(x)))(x)

    net = hk.without_apply_rng(hk.transform(stacked))
    params = net.init(jax.random.key(0), batch())

    def loss(params: Any, x: Any) -> Any:
        return net.apply(params, x).std()

    return Case(jax.grad(loss), (params, batch()), {"x": "data", "w$": P(None, None, "model")})


@program("haiku", long=True)
def haiku_recurrent() -> Case:
    import haiku as hk

    def unroll(x: Any) -> Any:
        core = hk.DeepRNN([hk.LSTM(16), jax.nn.relu, hk.GRU(8)])
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))

    net = hk.without_apply_rng(hk.transform(unroll))
    x = batch(5, 4, WIDTH)
    params = net.init(jax.random.key(0), x)

    def apply(params: Any, x: Any) -> Any:
        return net.apply(params, x)

    return Case(apply, (params, x), {"x": P(None, "data"), "lstm.*/w$": P(None, "model")})


@program("haiku", long=True)
def haiku_mapped_quantizer() -> Case:
    import haiku as hk

    def encode(x: Any) -> Any:
        hidden = hk.vmap(hk.Linear(8), split_rng=False)(x)
        coded = hk.nets.VectorQuantizerEMA(8, 32, 0.25, 0.9)(hidden, is_training=True)
        return coded["quantize"], coded["loss"]

    net = hk.without_apply_rng(hk.transform_with_state(encode))
    params, state = net.init(jax.random.key(0), batch())

    def apply(params: Any, state: Any, x: Any) -> Any:
        return net.apply(params, state, x)

    return Case(apply, (params, state, batch()), {"x": "data", "embeddings$": P(None, "model")})
