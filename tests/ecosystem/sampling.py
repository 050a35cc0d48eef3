"""Sampling and searching: blackjax, flowjax, evosax, mctx, rlax, TensorFlow Probability."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program


def _log_posterior(x: Any, y: Any) -> Any:
    return lambda w: -jnp.sum((x @ w - y) ** 2) - 0.5 * jnp.sum(w**2)


@program("blackjax", long=True)
def blackjax_no_u_turn() -> Case:
    import blackjax

    def sample(x: Any, y: Any, key: Any) -> Any:
        kernel = blackjax.nuts(_log_posterior(x, y), 0.05, jnp.ones(WIDTH), max_num_doublings=3)
        state, _ = kernel.step(key, kernel.init(jnp.zeros(WIDTH)))
        return state.position, state.logdensity

    return Case(sample, (batch(), jnp.ones(BATCH), jax.random.PRNGKey(0)), {"x": P("data", "model"), "y": "data"})


@program("blackjax")
def blackjax_chains() -> Case:
    """A chain on each device, of which none looks at others."""
    import blackjax

    def sample(x: Any, y: Any, starts: Any, key: Any) -> Any:
        kernel = blackjax.hmc(_log_posterior(x, y), 0.01, jnp.ones(WIDTH), num_integration_steps=3)
        keys = jax.random.split(key, len(starts))
        states, _ = jax.vmap(kernel.step)(keys, jax.vmap(kernel.init)(starts))
        return states.position

    starts = batch(8, WIDTH, seed=1)
    return Case(sample, (batch(), jnp.ones(BATCH), starts, jax.random.PRNGKey(0)), {"starts": P(("data", "model"))})


@program("blackjax", long=True)
def blackjax_tempered_particles() -> Case:
    from blackjax import mala, smc, tempered_smc

    def sample(particles: Any, key: Any) -> Any:
        step = {"step_size": jnp.array([0.1])}
        kernel = tempered_smc(
            lambda w: -0.5 * jnp.sum(w**2),
            lambda w: -3 * jnp.sum((w - 1) ** 2),
            mala.build_kernel(),
            mala.init,
            step,
            smc.resampling.systematic,
            num_mcmc_steps=2,
        )
        state, _ = kernel.step(key, kernel.init(particles), 0.3)
        return state.particles, state.weights

    return Case(sample, (batch(32, 4), jax.random.PRNGKey(0)), {"particles": P("data", "model")})


@program("flowjax", "paramax", "equinox", long=True)
def flowjax_autoregressive_density() -> Case:
    """Its parts are one number and one for each sample, which are added before they are reduced."""
    import equinox as eqx
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow
    from paramax import unwrap

    flow = masked_autoregressive_flow(jax.random.key(0), base_dist=Normal(jnp.zeros(WIDTH)), flow_layers=2, nn_width=16)
    arrays, rest = eqx.partition(flow, eqx.is_inexact_array)

    def loss(arrays: Any, x: Any) -> Any:
        return -unwrap(eqx.combine(arrays, rest)).log_prob(x).mean()

    return Case(jax.value_and_grad(loss), (arrays, batch()), {"x": P("data", "model")})


@program("evosax")
def evosax_covariance_adaptation() -> Case:
    from evosax.algorithms import CMA_ES

    search = CMA_ES(population_size=16, solution=jnp.zeros(WIDTH))
    params = search.default_params

    def generations(mean: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            population, state = search.ask(key, state, params)
            fitness = jnp.sum(population**2, -1)
            state, _ = search.tell(key, population, fitness, state, params)
            return state, fitness.min()

        state, best = jax.lax.scan(step, search.init(key, mean, params), jax.random.split(key, 3))
        return state.mean, best

    return Case(generations, (jnp.ones(WIDTH), jax.random.PRNGKey(0)), {"mean": "model"})


@program("mctx", long=True)
def mctx_gumbel_search() -> Case:
    import mctx

    def act(w: Any, x: Any, key: Any) -> Any:
        def step(params: Any, key: Any, action: Any, state: Any) -> Any:
            state = jnp.tanh(state @ w + jax.nn.one_hot(action, WIDTH))
            told = mctx.RecurrentFnOutput(
                reward=state[:, 0], discount=jnp.full(len(state), 0.9), prior_logits=state, value=state[:, 1]
            )
            return told, state

        root = mctx.RootFnOutput(prior_logits=x, value=x[:, 0], embedding=x)
        found = mctx.gumbel_muzero_policy((), key, root, step, num_simulations=4, max_depth=3)
        return found.action, found.action_weights

    args = (batch(WIDTH, WIDTH, seed=1), batch(), jax.random.PRNGKey(0))
    return Case(act, args, {"x": "data", "w": P(None, "model")})


@program("rlax")
def rlax_returns() -> Case:
    import rlax

    def returns(values: Any, rewards: Any, ratios: Any) -> Any:
        discounts = jnp.full_like(rewards, 0.9)
        traced = jax.vmap(rlax.vtrace_td_error_and_advantage)(
            values[:, :-1], values[:, 1:], rewards, discounts, jnp.exp(ratios)
        )
        return traced, jax.vmap(lambda r, d, v: rlax.lambda_returns(r, d, v, 0.9))(rewards, discounts, values[:, 1:])

    args = (batch(8, 17), batch(8, 16, seed=1), 0.1 * batch(8, 16, seed=2))
    return Case(returns, args, {"values": "data", "rewards": P("data", "model"), "ratios": P(None, "model")})


@program("tensorflow_probability")
def tfp_hidden_markov() -> Case:
    from tensorflow_probability.substrates import jax as tfp

    tfd = tfp.distributions

    def smoothed(x: Any, w: Any) -> Any:
        model = tfd.HiddenMarkovModel(
            tfd.Categorical(logits=jnp.zeros(4)), tfd.Categorical(logits=w), tfd.Normal(jnp.arange(4.0), 1.0), WIDTH
        )
        return model.log_prob(x), model.posterior_mode(x), model.posterior_marginals(x).logits

    return Case(smoothed, (batch(), batch(4, 4, seed=1)), {"x": "data", "w": P(None, "model")})


@program("tensorflow_probability")
def tfp_hamiltonian_chain() -> Case:
    from tensorflow_probability.substrates import jax as tfp

    def chain(x: Any, key: Any) -> Any:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda w: -jnp.sum(w**2, -1), step_size=0.1, num_leapfrog_steps=3)
        return tfp.mcmc.sample_chain(4, current_state=x, kernel=kernel, trace_fn=None, seed=key)

    return Case(chain, (batch(8, 4), jax.random.PRNGKey(0)), {"x": P("data", "model")})
