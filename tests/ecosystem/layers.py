"""Layers of flax linen, lifted and with state: loops, rematerialization, ensembles, caches, experts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import WIDTH, Case, batch, program


@program("flax", long=True)
def linen_rematerialized_gradient() -> Case:
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return x + nn.Dense(WIDTH, name="down")(nn.gelu(nn.Dense(32, name="up")(nn.RMSNorm()(x))))

    class Stack(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            return nn.remat_scan(Block, lengths=(2, 2))()(x)

    variables = Stack().init(jax.random.key(0), batch())

    def loss(variables: Any, x: Any) -> Any:
        return (Stack().apply(variables, x) ** 2).mean()

    shardings = {"x": "data", "up/kernel$": (None, None, None, "model"), "down/kernel$": (None, None, "model")}
    return Case(jax.value_and_grad(loss), (variables, batch()), shardings)


@program("flax")
def linen_ensemble() -> Case:
    import flax.linen as nn

    lifted = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, axis_size=4)
    module = lifted(features=16)
    args = (module.init(jax.random.key(0), batch()), batch())
    return Case(
        lambda variables, x: module.apply(variables, x).mean(0), args, {"x": "data", "(kernel|bias)$": P("model")}
    )


@program("flax", "optax", long=True)
def linen_residual_training() -> Case:
    import flax.linen as nn
    import optax
    from flax.training.train_state import TrainState

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3), use_bias=False)(x))
            y = nn.avg_pool(nn.relu(x + y), (2, 2), (2, 2))
            return nn.Dense(4)(y.reshape(len(y), -1))

    class State(TrainState):
        batch_stats: Any

    x, labels = batch(8, 8, 8, 8), jnp.arange(8) % 4
    variables = Block().init(jax.random.key(0), x)
    state = State.create(apply_fn=Block().apply, tx=optax.sgd(0.1, momentum=0.9), **variables)

    def step(state: Any, x: Any, labels: Any) -> Any:
        def loss(params: Any) -> Any:
            variables = {"params": params, "batch_stats": state.batch_stats}
            logits, updates = state.apply_fn(variables, x, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean(), updates

        (value, updates), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=gradient, batch_stats=updates["batch_stats"]), value

    return Case(step, (state, x, labels), {"x": "data", "labels": "data", "params/Dense_0/kernel$": "model"})


@program("flax", long=True)
def linen_decoding_with_a_cache() -> Case:
    import flax.linen as nn

    module = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=16, decode=True)
    variables = module.init(jax.random.key(0), batch(4, 6, WIDTH))
    cache, params = variables["cache"], variables["params"]

    def decode(params: Any, cache: Any, x: Any) -> Any:
        def step(cache: Any, token: Any) -> Any:
            y, updates = module.apply({"params": params, "cache": cache}, token[:, None], mutable=["cache"])
            return updates["cache"], y[:, 0]

        return jax.lax.scan(step, cache, x.swapaxes(0, 1))

    shardings = {
        "x": "data",
        "cached_(key|value)$": P("data", None, "model"),
        "(query|key|value)/kernel$": P(None, "model"),
    }
    return Case(decode, (params, cache, batch(4, 6, WIDTH)), shardings)


@program("flax", long=True)
def linen_experts() -> Case:
    import flax.linen as nn

    class Experts(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            gates, chosen = jax.lax.top_k(nn.softmax(nn.Dense(4, name="router")(x)), 2)
            up = self.param("up", nn.initializers.lecun_normal(), (4, WIDTH, 16))
            down = self.param("down", nn.initializers.lecun_normal(), (4, 16, WIDTH))
            mixed = jax.nn.one_hot(chosen, 4) * gates[..., None]  # token, choice, expert
            rank = jnp.cumsum(jax.nn.one_hot(chosen[:, 0], 4), 0)
            kept = (mixed.sum(1) * (rank <= 6)).astype(x.dtype)
            hidden = nn.relu(jnp.einsum("te,td,edf->etf", kept > 0, x, up))
            return jnp.einsum("te,etf,efd->td", kept, hidden, down)

    variables = Experts().init(jax.random.key(0), batch())

    def apply(variables: Any, x: Any) -> Any:
        return Experts().apply(variables, x)

    return Case(apply, (variables, batch()), {"x": "data", "params/(up|down)$": "model"})


@program("flax")
def linen_spectral_norm() -> Case:
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.SpectralNorm(nn.Dense(16, name="dense"))(x, update_stats=True)
            return nn.WeightNorm(nn.Dense(8, name="out"))(nn.leaky_relu(x))

    variables = Net().init(jax.random.key(0), batch())

    def apply(variables: Any, x: Any) -> Any:
        return Net().apply(variables, x, mutable=["batch_stats"])

    return Case(apply, (variables, batch()), {"x": "data", "dense/kernel$": P(None, "model")})


@program("flax", long=True)
def linen_bidirectional() -> Case:
    import flax.linen as nn

    module = nn.Bidirectional(nn.RNN(nn.GRUCell(8)), nn.RNN(nn.OptimizedLSTMCell(8)))
    lengths = jnp.array([5, 3, 4, 1])
    variables = module.init(jax.random.key(0), batch(4, 5, WIDTH), seq_lengths=lengths)

    def apply(variables: Any, x: Any, lengths: Any) -> Any:
        return module.apply(variables, x, seq_lengths=lengths)

    return Case(apply, (variables, batch(4, 5, WIDTH), lengths), {"x": "data", "lengths": "data"})
