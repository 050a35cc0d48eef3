"""Inference: numpyro, distrax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program


def _regression(x: Any, y: Any = None) -> None:
    import numpyro
    import numpyro.distributions as dist

    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    w = numpyro.sample("w", dist.Normal(jnp.zeros(WIDTH), 1).to_event(1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, scale + 0.1), obs=y)


@program("numpyro")
def numpyro_potential_energy() -> Case:
    from numpyro.infer.util import potential_energy

    def energy(params: Any, x: Any, y: Any) -> Any:
        return potential_energy(_regression, (x,), {"y": y}, params)

    params = {"scale": jnp.array(0.1), "w": jnp.ones(WIDTH)}
    return Case(jax.value_and_grad(energy), (params, batch(), jnp.ones(BATCH)), {"x": P("data", "model"), "y": "data"})


def _sampler_step(kernel: Any) -> Case:
    x, y = batch(), jnp.ones(BATCH)
    state = kernel.init(jax.random.PRNGKey(0), 4, None, (x,), {"y": y})

    def step(state: Any, x: Any, y: Any) -> Any:
        after = kernel.sample(state, (x,), {"y": y})
        return after.z, after.potential_energy

    return Case(step, (state, x, y), {"x": "data", "y": "data"})


@program("numpyro", long=True)
def numpyro_hamiltonian_step() -> Case:
    from numpyro.infer import HMC

    return _sampler_step(HMC(_regression, step_size=0.05, num_steps=3, adapt_step_size=False))


@program("numpyro", long=True)
def numpyro_no_u_turn_step() -> Case:
    from numpyro.infer import NUTS

    return _sampler_step(NUTS(_regression, step_size=0.05, max_tree_depth=3))


@program("numpyro", long=True)
def numpyro_gaussian_process() -> Case:
    import numpyro.distributions as dist

    def evidence(x: Any, y: Any, length: Any) -> Any:
        kernel = jnp.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1) / length**2) + 0.1 * jnp.eye(len(x))
        return dist.MultivariateNormal(covariance_matrix=kernel).log_prob(y)

    args = (batch(), jnp.ones(BATCH), jnp.array(2.0))
    return Case(jax.grad(evidence, 2), args, {"x": "data", "y": "data"})


@program("numpyro", long=True)
def numpyro_predictions() -> Case:
    from numpyro.infer import Predictive

    def draw(samples: Any, x: Any, key: Any) -> Any:
        return Predictive(_regression, samples, parallel=True)(key, x)["y"]

    samples = {"scale": jnp.ones(4), "w": batch(4, WIDTH)}
    return Case(draw, (samples, batch(), jax.random.PRNGKey(0)), {"x": "data", "samples": "model"})


@program("distrax", long=True)
def distrax_mixture() -> Case:
    import distrax

    def loss(params: Any, x: Any) -> Any:
        parts = distrax.MultivariateNormalDiag(params["mean"], jax.nn.softplus(params["scale"]))
        mixture = distrax.MixtureSameFamily(distrax.Categorical(logits=params["logits"]), parts)
        return -mixture.log_prob(x).mean()

    params = {"mean": batch(4, WIDTH), "scale": jnp.ones((4, WIDTH)), "logits": jnp.zeros(4)}
    return Case(jax.value_and_grad(loss), (params, batch()), {"x": "data", "mean$": "model", "logits$": "model"})


@program("distrax", long=True)
def distrax_hidden_states() -> Case:
    import distrax

    def smooth(transitions: Any, means: Any, x: Any) -> Any:
        model = distrax.HMM(
            trans_dist=distrax.Categorical(logits=transitions),
            init_dist=distrax.Categorical(logits=jnp.zeros(4)),
            obs_dist=distrax.Normal(means, jnp.ones(4)),
        )
        return jax.vmap(model.forward_backward)(x)

    args = (batch(4, 4), jnp.arange(4.0), batch(8, 6))
    return Case(smooth, args, {"x": "data", "transitions": P(None, "model")})


@program("distrax", long=True)
def distrax_coupling() -> Case:
    import distrax

    mask = jnp.arange(WIDTH) % 2 == 0
    bins = 4

    def loss(params: Any, x: Any) -> Any:
        def conditioner(x: Any) -> Any:
            hidden = jnp.tanh(x @ params["first"]) @ params["second"]
            return hidden.reshape(*x.shape, 3 * bins + 1)

        def spline(params: Any) -> Any:
            return distrax.RationalQuadraticSpline(params, -3.0, 3.0)

        flow = distrax.Inverse(distrax.MaskedCoupling(mask, conditioner, spline))
        base = distrax.Independent(distrax.Normal(jnp.zeros(WIDTH), jnp.ones(WIDTH)), 1)
        return -distrax.Transformed(base, flow).log_prob(x).mean()

    params = {"first": batch(WIDTH, 16), "second": batch(16, WIDTH * (3 * bins + 1)) / 4}
    return Case(
        jax.value_and_grad(loss), (params, batch()), {"x": "data", "first$": P(None, "model"), "second$": "model"}
    )
