"""Solvers: diffrax, optimistix, lineax, jaxopt."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from tests.ecosystem.programs import BATCH, WIDTH, Case, batch, program


@program("diffrax", long=True)
def diffrax_adaptive() -> Case:
    import diffrax

    def solve(w: Any, x: Any) -> Any:
        def one(x: Any) -> Any:
            term = diffrax.ODETerm(lambda t, y, w: jnp.tanh(w @ y) - y)
            return diffrax.diffeqsolve(
                term,
                diffrax.Dopri5(),
                0.0,
                1.0,
                0.1,
                x,
                args=w,
                saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 3)),
                stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-4),
                max_steps=64,
                throw=False,
            ).ys

        return jax.vmap(one)(x)

    return Case(solve, (batch(WIDTH, WIDTH) / 4, batch()), {"x": "data", "w": "model"})


@program("diffrax", long=True)
def diffrax_adjoint() -> Case:
    import diffrax

    def loss(w: Any, x: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, w: jnp.tanh(y @ w))
        solution = diffrax.diffeqsolve(
            term,
            diffrax.Heun(),
            0.0,
            1.0,
            0.25,
            x,
            args=w,
            adjoint=diffrax.BacksolveAdjoint(),
            max_steps=8,
            throw=False,
        )
        return (solution.ys**2).mean()

    return Case(jax.value_and_grad(loss), (batch(WIDTH, WIDTH) / 4, batch()), {"x": "data", "w": P(None, "model")})


@program("diffrax", long=True)
def diffrax_stochastic() -> Case:
    import diffrax

    def sample(scale: Any, x: Any, keys: Any) -> Any:
        def one(x: Any, key: Any) -> Any:
            noise = diffrax.VirtualBrownianTree(0.0, 1.0, 0.05, (WIDTH,), key)
            diffusion = diffrax.ControlTerm(lambda t, y, _: scale * y, noise)
            terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, _: -y), diffusion)
            return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.25, x, max_steps=8, throw=False).ys

        return jax.vmap(one)(x, keys)

    keys = jax.random.split(jax.random.key(0), BATCH)
    return Case(sample, (jnp.eye(WIDTH) * 0.1, batch(), keys), {"x": "data", "keys": "data"})


@program("diffrax", "equinox", long=True)
def diffrax_controlled() -> Case:
    import diffrax

    def solve(w: Any, x: Any) -> Any:
        ts = jnp.linspace(0.0, 1.0, x.shape[1])

        def one(path: Any) -> Any:
            control = diffrax.CubicInterpolation(ts, diffrax.backward_hermite_coefficients(ts, path))
            term = diffrax.ControlTerm(lambda t, y, w: jnp.tanh(jnp.einsum("hic,h->ic", w, y)), control).to_ode()
            return diffrax.diffeqsolve(
                term, diffrax.Midpoint(), 0.0, 1.0, 0.25, jnp.ones(WIDTH), args=w, max_steps=8, throw=False
            ).ys

        return jax.vmap(one)(x)

    args = (batch(WIDTH, WIDTH, 4) / 4, batch(8, 5, 4))
    return Case(solve, args, {"x": "data", "w": P(None, "model")})


@program("optimistix", long=True)
def optimistix_root() -> Case:
    import optimistix as optx

    def solve(w: Any, x: Any) -> Any:
        def one(x: Any) -> Any:
            solver = optx.Newton(1e-4, 1e-4)
            return optx.root_find(
                lambda y, x: y - jnp.tanh(w @ y) - x, solver, jnp.zeros(WIDTH), args=x, max_steps=8, throw=False
            ).value

        return jax.vmap(one)(x)

    return Case(solve, (batch(WIDTH, WIDTH) / 8, batch()), {"x": "data", "w": "model"})


@program("optimistix", long=True)
def optimistix_curve_fit() -> Case:
    import optimistix as optx

    def fit(x: Any, y: Any) -> Any:
        def residuals(params: Any, _: Any) -> Any:
            return params["scale"] * jnp.exp(-params["rate"] * x) - y

        solver = optx.LevenbergMarquardt(1e-4, 1e-4)
        start = {"scale": jnp.array(1.0), "rate": jnp.array(0.5)}
        return optx.least_squares(residuals, solver, start, max_steps=16, throw=False).value

    x = jnp.linspace(0.0, 2.0, BATCH)
    return Case(fit, (x, 2 * jnp.exp(-1.5 * x)), {"x": "data", "y": "data"})


@program("optimistix", long=True)
def optimistix_fixed_point_gradient() -> Case:
    import optimistix as optx

    def loss(w: Any, x: Any) -> Any:
        solver = optx.FixedPointIteration(1e-5, 1e-5)
        found = optx.fixed_point(lambda y, w: jnp.tanh(y @ w + x), solver, x, args=w, max_steps=64, throw=False)
        return (found.value**2).mean()

    return Case(jax.grad(loss), (batch(WIDTH, WIDTH) / 16, batch()), {"x": "data", "w": P(None, "model")})


@program("lineax")
def lineax_ridge() -> Case:
    import lineax as lx

    def ridge(x: Any, y: Any) -> Any:
        gram = x.T @ x + jnp.eye(WIDTH)
        operator = lx.MatrixLinearOperator(gram, lx.positive_semidefinite_tag)
        return lx.linear_solve(operator, x.T @ y, lx.Cholesky(), throw=False).value

    return Case(ridge, (batch(), jnp.ones(BATCH)), {"x": "data", "y": "data"})


@program("lineax")
def lineax_conjugate_gradient() -> Case:
    import lineax as lx

    def solve(x: Any, y: Any) -> Any:
        like = jax.ShapeDtypeStruct((WIDTH,), x.dtype)
        operator = lx.FunctionLinearOperator(lambda v: x.T @ (x @ v) + v, like, lx.positive_semidefinite_tag)
        return lx.linear_solve(operator, y, lx.CG(1e-5, 1e-5, max_steps=16), throw=False).value

    return Case(solve, (batch(), jnp.ones(WIDTH)), {"x": P("data", "model")})


@program("lineax", long=True)
def lineax_batched_gradient() -> Case:
    import lineax as lx

    def loss(a: Any, y: Any) -> Any:
        def one(a: Any, y: Any) -> Any:
            return lx.linear_solve(
                lx.MatrixLinearOperator(a), y, lx.AutoLinearSolver(well_posed=True), throw=False
            ).value

        return (jax.vmap(one)(a, y) ** 2).mean()

    args = (batch(8, 4, 4) + 4 * jnp.eye(4), batch(8, 4))
    return Case(jax.grad(loss, (0, 1)), args, {"a": P(("data", "model")), "y": "data"})


def _logistic(w: Any, x: Any, y: Any) -> Any:
    return jnp.logaddexp(0.0, -y * (x @ w)).mean() + 0.1 * (w**2).sum()


def _labels() -> Any:
    return jnp.where(jnp.arange(BATCH) % 3 == 0, 1.0, -1.0)


@program("jaxopt", long=True)
def jaxopt_quasi_newton() -> Case:
    import jaxopt

    def solve(x: Any, y: Any) -> Any:
        solver = jaxopt.LBFGS(_logistic, maxiter=4, implicit_diff=False, linesearch="backtracking")
        return solver.run(jnp.zeros(WIDTH), x=x, y=y).params

    return Case(solve, (batch(), _labels()), {"x": "data", "y": "data"})


@program("jaxopt", long=True)
def jaxopt_implicit_gradient() -> Case:
    import jaxopt

    def loss(strength: Any, x: Any, y: Any) -> Any:
        def inner(w: Any, strength: Any) -> Any:
            return ((x @ w - y) ** 2).mean() + strength * (w**2).sum()

        solver = jaxopt.GradientDescent(inner, maxiter=20, stepsize=0.05, implicit_diff=True)
        return ((x @ solver.run(jnp.zeros(WIDTH), strength).params - 1) ** 2).mean()

    return Case(jax.grad(loss), (jnp.array(0.5), batch(), _labels()), {"x": P("data", "model"), "y": "data"})
