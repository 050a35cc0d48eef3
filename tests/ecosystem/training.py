"""Training and solving: optax, jaxopt, diffrax, optimistix."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program

OPTIMIZERS = {
    "adamw": lambda optax: optax.adamw(1e-3),
    "adafactor": lambda optax: optax.adafactor(1e-3, min_dim_size_to_factor=8),
    "clipped_momentum": lambda optax: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)),
    "accumulated": lambda optax: optax.MultiSteps(optax.adam(1e-3), 2),
    "lion": lambda optax: optax.lion(1e-3),
    "lamb": lambda optax: optax.lamb(1e-3),
    "rmsprop": lambda optax: optax.rmsprop(1e-3),
    "sm3": lambda optax: optax.sm3(1e-2),
    "scheduled": lambda optax: optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10)),
    "masked": lambda optax: optax.masked(optax.adam(1e-2), {"w": True, "b": False}),
    "skipping": lambda optax: optax.apply_if_finite(optax.sgd(0.1), 3),
    "lookahead": lambda optax: optax.chain(optax.add_decayed_weights(1e-2), optax.trace(0.9), optax.scale(-0.1)),
}
QUICK = ("adamw", "adafactor", "clipped_momentum", "accumulated")


def _training(name: str) -> Case:
    import optax

    optimizer = OPTIMIZERS[name](optax)
    params = {"w": batch(WIDTH, 32, seed=1) / 8, "b": jnp.zeros(32)}

    def step(params: Any, state: Any, x: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda p: ((x @ p["w"] + p["b"]) ** 2).mean())(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, loss

    shardings = {"x": "data", "params/w": P(None, "model")}
    return Case(step, (params, optimizer.init(params), batch()), shardings, {"donate_argnums": (0, 1)})


def _register(name: str) -> None:
    def make() -> Case:
        return _training(name)

    make.__name__ = f"optax_{name}"
    program("optax", long=name not in QUICK)(make)


for _name in OPTIMIZERS:
    _register(_name)


def _squared_error(w: Any, x: Any, y: Any) -> Any:
    return ((x @ w - y) ** 2).mean()


@program("jaxopt")
def jaxopt_descent() -> Case:
    import jaxopt

    def solve(x: Any, y: Any) -> Any:
        return (
            jaxopt.GradientDescent(_squared_error, maxiter=5, implicit_diff=False)
            .run(jnp.zeros(WIDTH), x=x, y=y)
            .params
        )

    return Case(solve, (batch(), jnp.ones(BATCH)), {"x": "data", "y": "data"})


@program("jaxopt", long=True)
def jaxopt_projected() -> Case:
    import jaxopt

    def solve(x: Any, y: Any) -> Any:
        solver = jaxopt.ProjectedGradient(
            _squared_error, jaxopt.projection.projection_non_negative, maxiter=5, implicit_diff=False
        )
        return solver.run(jnp.zeros(WIDTH), x=x, y=y).params

    return Case(solve, (batch(), jnp.ones(BATCH)), {"x": "data", "y": "data"})


@program("optimistix", long=True)
def optimistix_least_squares() -> Case:
    import optimistix as optx

    def solve(x: Any, y: Any) -> Any:
        solver = optx.GradientDescent(0.1, 1e-3, 1e-3)
        return optx.minimise(
            lambda w, _: _squared_error(w, x, y), solver, jnp.zeros(WIDTH), max_steps=4, throw=False
        ).value

    return Case(solve, (batch(), jnp.ones(BATCH)), {"x": "data", "y": "data"})


def _solved(x: Any, **options: Any) -> Any:
    import diffrax

    term = diffrax.ODETerm(lambda t, y, _: -y)
    at_end = diffrax.SaveAt(t1=True)
    return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, x, saveat=at_end, max_steps=32, **options).ys


@program("diffrax")
def diffrax_solution() -> Case:
    return Case(lambda x: _solved(x, throw=False), (batch(),), {"x": "data"})


@program("diffrax", long=True)
def diffrax_gradient() -> Case:
    return Case(jax.grad(lambda x: _solved(x, throw=False).sum()), (batch(),), {"x": "data"})
