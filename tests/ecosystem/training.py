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
    "decayed_trace": lambda optax: optax.chain(optax.add_decayed_weights(1e-2), optax.trace(0.9), optax.scale(-0.1)),
    "nesterov": lambda optax: optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1, momentum=0.9, nesterov=True)),
    "injected": lambda optax: optax.inject_hyperparams(optax.nadam)(optax.cosine_decay_schedule(1e-2, 10)),
    "muon": lambda optax: optax.contrib.muon(1e-2),
    "schedule_free": lambda optax: optax.contrib.schedule_free_adamw(1e-2),
    "partitioned": lambda optax: optax.partition({"w": optax.sgd(0.1), "b": optax.adam(1e-2)}, {"w": "w", "b": "b"}),
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


def _fitted(params: Any, x: Any) -> Any:
    return (jnp.tanh(x @ params["w"]).sum(-1) ** 2).mean()


@program("optax", long=True)
def optax_lookahead() -> Case:
    import optax

    optimizer = optax.lookahead(optax.sgd(0.1), sync_period=2, slow_step_size=0.5)
    params = optax.LookaheadParams.init_synced({"w": batch(WIDTH, 32) / 8})

    def step(params: Any, state: Any, x: Any) -> Any:
        updates, state = optimizer.update(jax.grad(_fitted)(params.fast, x), state, params)
        return optax.apply_updates(params, updates), state

    shardings = {"x": "data", "params/(fast|slow)/w": P(None, "model")}
    return Case(step, (params, optimizer.init(params), batch()), shardings)


@program("optax", long=True)
def optax_sharpness_aware() -> Case:
    import optax
    import optax.contrib

    params = {"w": batch(WIDTH, 32) / 8}
    rise = optax.chain(optax.contrib.normalize(), optax.sgd(0.05))
    optimizer = optax.contrib.sam(optax.sgd(0.1), rise, sync_period=2, opaque_mode=True)

    def step(params: Any, state: Any, x: Any) -> Any:
        gradient = jax.grad(_fitted)
        updates, state = optimizer.update(
            gradient(params, x), state, params, grad_fn=lambda params, _: gradient(params, x)
        )
        return optax.apply_updates(params, updates), state

    return Case(step, (params, optimizer.init(params), batch()), {"x": "data", "params/w": P(None, "model")})


@program("optax", long=True)
def optax_line_search() -> Case:
    import optax

    params = {"w": batch(WIDTH, 32) / 8}
    optimizer = optax.lbfgs(memory_size=2)

    def step(params: Any, state: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            return _fitted(params, x)

        value, gradient = optax.value_and_grad_from_state(loss)(params, state=state)
        updates, state = optimizer.update(gradient, state, params, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(params, updates), state

    return Case(step, (params, optimizer.init(params), batch()), {"x": "data", "params/w": P(None, "model")})


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
