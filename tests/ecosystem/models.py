"""Models: flax linen and nnx, equinox, haiku, numpyro, distrax, jraph."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, by_patterns, program


def _linen(module: Any, x: Any, shardings: Any = None, **kwargs: Any) -> Case:
    variables = module.init(jax.random.key(0), x, **kwargs)
    patterns = shardings or {"x": "data", r"(?<!conv/)kernel$": P(None, "model")}
    return Case(lambda variables, x: module.apply(variables, x, **kwargs), (variables, x), patterns)


@program("flax")
def linen_perceptron() -> Case:
    import flax.linen as nn

    return _linen(nn.Sequential([nn.Dense(32), nn.relu, nn.LayerNorm(), nn.Dense(4)]), batch())


@program("flax")
def linen_attention() -> Case:
    import flax.linen as nn

    module = nn.MultiHeadDotProductAttention(num_heads=4, qkv_features=32)
    return _linen(module, batch(4, 6, WIDTH), {"x": "data", "(query|key|value)/kernel$": P(None, "model")})


@program("flax")
def linen_convolutions() -> Case:
    import flax.linen as nn

    module = nn.Sequential([nn.Conv(8, (3, 3)), nn.relu, nn.GroupNorm(num_groups=2), lambda x: x.mean((1, 2))])
    return _linen(module, batch(4, 8, 8, 4), {"x": "data"})


@program("flax")
def linen_batch_norm() -> Case:
    import flax.linen as nn

    module = nn.BatchNorm(use_running_average=False)
    variables = module.init(jax.random.key(0), batch())

    def apply(variables: Any, x: Any) -> Any:
        return module.apply(variables, x, mutable=["batch_stats"])

    return Case(apply, (variables, batch()), {"x": "data"})


@program("flax")
def linen_scanned_layers() -> Case:
    import flax.linen as nn

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x: Any, _: Any) -> Any:
            return nn.tanh(nn.Dense(WIDTH)(x)), None

    module = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)()
    variables = module.init(jax.random.key(0), batch(), None)
    args = (variables, batch())
    return Case(
        lambda variables, x: module.apply(variables, x, None)[0], args, {"x": "data", "kernel$": (None, None, "model")}
    )


@program("flax")
def linen_lstm() -> Case:
    import flax.linen as nn

    return _linen(nn.RNN(nn.LSTMCell(16)), batch(4, 5, WIDTH), {"x": "data"})


@program("flax")
def linen_embedding_and_dropout() -> Case:
    import flax.linen as nn

    table = nn.Embed(32, 16)
    tokens = jnp.arange(BATCH) % 32
    variables = table.init(jax.random.key(0), tokens)

    def apply(variables: Any, x: Any, key: Any) -> Any:
        return nn.Dropout(0.5, deterministic=False).apply({}, table.apply(variables, x), rngs={"dropout": key})

    return Case(apply, (variables, tokens, jax.random.key(1)), {"x": "data", "embedding$": P("model")})


def _nnx_model() -> Any:
    from flax import nnx

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(WIDTH, 32, rngs=rngs)
            self.norm = nnx.LayerNorm(32, rngs=rngs)
            self.second = nnx.Linear(32, 4, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.second(nnx.relu(self.norm(self.first(x))))

    return Model(nnx.Rngs(0))


@program("flax")
def nnx_split_and_merged() -> Case:
    from flax import nnx

    graph, state = nnx.split(_nnx_model())
    return Case(lambda state, x: nnx.merge(graph, state)(x), (state, batch()), by_patterns())


@program("flax")
def nnx_jitted() -> Case:
    from flax import nnx

    return Case(
        nnx.jit(lambda model, x: model(x)), (_nnx_model(), batch()), {"x": "data", "first/kernel$": (None, "model")}
    )


@program("flax", "optax")
def nnx_training_step() -> Case:
    import optax
    from flax import nnx

    model = _nnx_model()
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, x: Any) -> Any:
        loss, gradient = nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)
        optimizer.update(model, gradient)
        return loss

    return Case(step, (model, optimizer, batch()), {"x": "data", "model/first/kernel": (None, "model")})


def _perceptron() -> Any:
    import equinox as eqx

    return eqx.nn.MLP(WIDTH, 4, 32, 2, key=jax.random.key(0))


@program("equinox")
def equinox_partitioned() -> Case:
    import equinox as eqx

    params, static = eqx.partition(_perceptron(), eqx.is_array)

    def apply(params: Any, x: Any) -> Any:
        return jax.vmap(eqx.combine(params, static))(x)

    return Case(apply, (params, batch()), {"x": "data", "layers/0/weight$": "model"})


@program("equinox")
def equinox_jitted() -> Case:
    import equinox as eqx

    fn = eqx.filter_jit(lambda model, x: jax.vmap(model)(x))
    return Case(fn, (_perceptron(), batch()), {"x": "data", "model/layers/0/weight": "model"})


@program("equinox")
def equinox_attention() -> Case:
    import equinox as eqx

    params, static = eqx.partition(eqx.nn.MultiheadAttention(4, WIDTH, key=jax.random.key(0)), eqx.is_array)

    def apply(params: Any, x: Any) -> Any:
        attend = eqx.combine(params, static)
        return jax.vmap(lambda row: attend(row, row, row))(x)

    return Case(apply, (params, batch(4, 6, WIDTH)), {"x": "data"})


@program("haiku")
def haiku_perceptron() -> Case:
    import haiku as hk

    net = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([32, 4])(x)))
    return Case(
        net.apply, (net.init(jax.random.key(0), batch()), batch()), {"x": "data", "linear_0/w$": (None, "model")}
    )


@program("haiku")
def haiku_with_state() -> Case:
    import haiku as hk

    net = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(hk.Linear(16)(x), is_training=True))
    params, state = net.init(jax.random.key(0), batch())

    def apply(params: Any, state: Any, x: Any) -> Any:
        return net.apply(params, state, None, x)

    return Case(apply, (params, state, batch()), {"x": "data"})


@program("numpyro")
def numpyro_log_density() -> Case:
    import numpyro.distributions as dist

    def density(x: Any, w: Any) -> Any:
        return dist.Normal(x @ w, 1.0).log_prob(jnp.zeros(BATCH)).sum()

    return Case(density, (batch(), jnp.ones(WIDTH)), {"x": "data"})


@program("numpyro")
def numpyro_variational_step() -> Case:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide

    def model(x: Any, y: Any = None) -> None:
        w = numpyro.sample("w", dist.Normal(jnp.zeros(WIDTH), 1).to_event(1))
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

    svi = SVI(model, autoguide.AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
    x, y = batch(), jnp.ones(BATCH)
    state = svi.init(jax.random.key(0), x, y)
    return Case(lambda state, x, y: svi.update(state, x, y), (state, x, y), {"x": "data", "y": "data"})


@program("distrax")
def distrax_log_density() -> Case:
    import distrax

    def density(mean: Any, x: Any) -> Any:
        return distrax.MultivariateNormalDiag(mean, jnp.ones_like(mean)).log_prob(x)

    return Case(density, (batch(), batch(seed=1)), {"x": "data"})


@program("distrax")
def distrax_flow() -> Case:
    import distrax

    def density(x: Any, shift: Any) -> Any:
        flow = distrax.Chain(
            [distrax.Block(distrax.ScalarAffine(shift, jnp.exp(shift)), 1), distrax.Block(distrax.Tanh(), 1)]
        )
        base = distrax.MultivariateNormalDiag(jnp.zeros(WIDTH), jnp.ones(WIDTH))
        return distrax.Transformed(base, distrax.Inverse(flow)).log_prob(x)

    return Case(density, (batch(), jnp.full(WIDTH, 0.1)), {"x": "data"})


@program("jraph")
def jraph_convolution() -> Case:
    import jraph

    edges = 32
    graph = jraph.GraphsTuple(
        nodes=batch(),
        edges=jnp.ones((edges, 4)),
        senders=jnp.arange(edges) % BATCH,
        receivers=(jnp.arange(edges) * 3) % BATCH,
        n_node=jnp.array([BATCH]),
        n_edge=jnp.array([edges]),
        globals=jnp.ones((1, 2)),
    )

    def apply(graph: Any, w: Any) -> Any:
        return jraph.GraphConvolution(lambda nodes: nodes @ w)(graph).nodes

    return Case(apply, (graph, batch(WIDTH, 16)), {"graph/nodes": "data", "w": (None, "model")})
