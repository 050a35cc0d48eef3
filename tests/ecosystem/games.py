"""Games and control, many at once, played by lot or by a small policy: pgx and gymnax.

Much of such a program is alike, and little is repeated.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, Case, batch, program


def played(name: str) -> Case:
    """A few moves of a game by lot, of those that its rules allow."""
    import pgx

    env: Any = pgx.make(name)

    def move(state: Any, key: Any) -> tuple[Any, Any]:
        keys = jax.random.split(key, BATCH)
        chances = jnp.where(state.legal_action_mask, 0.0, -1e9)
        state = jax.vmap(env.step)(state, jax.vmap(jax.random.categorical)(keys, chances), keys)
        return state, state.rewards

    def play(keys: Any) -> Any:
        state, rewards = jax.lax.scan(move, jax.vmap(env.init)(keys), jax.random.split(keys[0], 6))
        return state.observation, rewards, state.terminated

    return Case(play, (jax.random.split(jax.random.PRNGKey(0), BATCH),), {"keys": P("data")})


def controlled(name: str) -> Case:
    """A few steps of an environment, by a policy of one product."""
    import gymnax

    env, settings = gymnax.make(name)
    width = min(8, env.reset(jax.random.PRNGKey(0), settings)[0].size)

    def step(policy: Any, carried: Any, key: Any) -> tuple[Any, Any]:
        observed, state = carried
        preferred = observed.reshape(-1)[:width].astype(jnp.float32) @ policy
        has_numbers = hasattr(env.action_space(settings), "n")
        action = jnp.argmax(preferred) % env.num_actions if has_numbers else jnp.tanh(preferred[:1])
        observed, state, reward, *_ = env.step(key, state, action, settings)
        return (observed, state), reward

    def run(policy: Any, key: Any) -> Any:
        return jax.lax.scan(partial(step, policy), env.reset(key, settings), jax.random.split(key, 8))[1].sum()

    def rewards(keys: Any, w: Any) -> Any:
        return jax.vmap(partial(run, w))(keys)

    args = jax.random.split(jax.random.PRNGKey(0), BATCH), batch(width, 4)
    return Case(rewards, args, {"keys": P("data"), "w": P(None, "model")})


@program("pgx", "svgwrite", long=True)
def pgx_connect_four() -> Case:
    return played("connect_four")


@program("pgx", "svgwrite", long=True)
def pgx_go() -> Case:
    return played("go_9x9")


@program("pgx", "svgwrite", long=True)
def pgx_backgammon() -> Case:
    return played("backgammon")


@program("pgx", "svgwrite", long=True)
def pgx_shogi_of_animals() -> Case:
    return played("animal_shogi")


@program("pgx", "svgwrite", long=True)
def pgx_mahjong_of_sparrows() -> Case:
    return played("sparrow_mahjong")


@program("gymnax", "seaborn", long=True)
def gymnax_cart_and_pole() -> Case:
    return controlled("CartPole-v1")


@program("gymnax", "seaborn", long=True)
def gymnax_pendulum() -> Case:
    return controlled("Pendulum-v1")


@program("gymnax", "seaborn", long=True)
def gymnax_breakout() -> Case:
    return controlled("Breakout-MinAtar")


@program("gymnax", "seaborn", long=True)
def gymnax_freeway() -> Case:
    return controlled("Freeway-MinAtar")
