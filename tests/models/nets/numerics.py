"""Linear algebra, statistics, equations: programs that are no nets."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.models.nets.net import LINE, ODD, net
from tests.models.steps.step import array

Tree = Any


@net(array(16, 6, 6), array(16, 12, 3), args={"motion": "data+model,-,-", "seen": "data+model,-,-"})
def kalman_filter(motion: Any, seen: Any) -> Any:
    """Sixteen tracks: predict, correct by what was seen, and carry the covariance. [track, time, measured]."""
    look = jnp.eye(3, 6)

    def track(motion: Any, seen: Any) -> Any:
        move = jnp.eye(6) + 0.1 * motion

        def step(carry: Any, z: Any) -> Any:
            x, p = carry
            x, p = move @ x, move @ p @ move.T + 0.1 * jnp.eye(6)
            gain = jnp.linalg.solve(look @ p @ look.T + 0.5 * jnp.eye(3), look @ p).T
            return (x + gain @ (z - look @ x), p - gain @ look @ p), x

        return lax.scan(step, (jnp.zeros(6), jnp.eye(6)), seen)

    return jax.vmap(track)(motion, seen)


@net(array(32, 3), array(32), array(16, 3), args={"x": "data,-", "y": "data", "new": "model,-"})
def gaussian_process(x: Any, y: Any, new: Any) -> Any:
    """Means and variances at new points by a Cholesky factor; points split."""

    def kernel(a: Any, b: Any) -> Any:
        return jnp.exp(-0.5 * jnp.sum((a[:, None] - b) ** 2, -1))

    factor = jnp.linalg.cholesky(kernel(x, x) + 0.5 * jnp.eye(32))
    alpha = jax.scipy.linalg.cho_solve((factor, True), y)
    cross = kernel(new, x)
    half = jax.scipy.linalg.solve_triangular(factor, cross.T, lower=True)
    likely = -0.5 * y @ alpha - jnp.log(jnp.diag(factor)).sum()
    return cross @ alpha, 1.5 - jnp.sum(half * half, 0), likely


@net(array(64, 16), args={"x": "data,-"}, mesh=LINE)
def principal_components(x: Any) -> Any:
    """The covariance of split rows, its spectrum, and how much three directions explain."""
    x = x * (1 + jnp.arange(16.0)) - (x * (1 + jnp.arange(16.0))).mean(0)
    values = jnp.linalg.svd(x, compute_uv=False)
    _, vectors = jnp.linalg.eigh(x.T @ x / 64)
    kept = vectors[:, -3:]
    return values, (x @ kept) @ kept.T, (values[:3] ** 2).sum() / (values**2).sum()


@net(array(64, 32), array(32, 8), args={"x": "data,model", "directions": "model,-"})
def random_projections(x: Any, directions: Any) -> Any:
    """Singular values by products with few directions, made orthogonal after each."""
    x = x @ jnp.diag(1.5 ** -jnp.arange(32.0))
    q, _ = jnp.linalg.qr(x @ directions)
    for _ in range(2):
        q, _ = jnp.linalg.qr(x @ jnp.linalg.qr(x.T @ q)[0])
    return jnp.linalg.svd(q.T @ x, compute_uv=False)


@net(array(48, 48), array(48), args={"a": "data,model", "b": "data"})
def conjugate_gradients(a: Any, b: Any) -> Any:
    """Until the residual is small, a matrix split both ways."""
    matrix = a @ a.T / 48 + jnp.eye(48)

    def step(state: Any) -> Any:
        x, r, p, size, count = state
        ap = matrix @ p
        alpha = size / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        new = r @ r
        return x, r, r + new / size * p, new, count + 1

    start = (jnp.zeros(48), b, b, b @ b, 0)
    x, r, *_ = lax.while_loop(lambda s: (s[3] > 1e-5) & (s[4] < 60), step, start)
    return x, jnp.linalg.norm(r) < 1e-2


@net(array(64, 10), array(64), args={"x": "data,-", "y": "data"}, mesh=LINE)
def logistic_regression_by_newton(x: Any, y: Any) -> Any:
    """Iterated with the exact curvature until the step is small."""
    labels = (y > 0).astype(jnp.float32)

    def step(carry: Any) -> Any:
        w, _, count = carry
        p = jax.nn.sigmoid(x @ w)
        slope = x.T @ (p - labels) + w
        curve = (x.T * (p * (1 - p))) @ x + jnp.eye(10)
        move = jnp.linalg.solve(curve, slope)
        return w - move, jnp.abs(move).max(), count + 1

    w, size, _ = lax.while_loop(lambda c: (c[1] > 1e-3) & (c[2] < 20), step, (jnp.zeros(10), jnp.float32(1), 0))
    return w, size < 1e-3


@net(
    {"w1": array(8, 32), "w2": array(32, 8)},
    array(16, 8),
    args={"params/w1": "-,model", "params/w2": "model,-", "x": "data,-"},
)
def neural_equation(params: Tree, x: Any) -> Any:
    """Ten steps of Runge and Kutta through a net, and the gradient of the end."""

    def speed(p: Any, x: Any) -> Any:
        return jnp.tanh(x @ p["w1"] / 3) @ p["w2"] / 6

    def end(p: Tree) -> Any:
        def step(_: Any, x: Any) -> Any:
            a = speed(p, x)
            b = speed(p, x + 0.05 * a)
            c = speed(p, x + 0.05 * b)
            return x + 0.1 / 6 * (a + 2 * b + 2 * c + speed(p, x + 0.1 * c))

        return jnp.mean(lax.fori_loop(0, 10, step, x) ** 2)

    return jax.value_and_grad(end)(params)


@net(array(16, 4), args={"x": "data+model,-"})
def adaptive_steps(x: Any) -> Any:
    """Oscillators, each with its own step size, until all have arrived."""

    def speed(x: Any) -> Any:
        return jnp.stack([x[:, 1], -x[:, 0], 0.1 * x[:, 3], -jnp.sin(x[:, 2])], -1)

    def step(carry: Any) -> Any:
        x, t, h, count = carry
        h = jnp.minimum(h, 1 - t)
        a = speed(x)
        b = speed(x + h[:, None] * a)
        error = 0.5 * h * jnp.linalg.norm(b - a, axis=-1)
        good = error < 0.05
        x = jnp.where(good[:, None], x + 0.5 * h[:, None] * (a + b), x)
        return x, jnp.where(good, t + h, t), jnp.where(good, h * 1.2, h * 0.5), count + 1

    x, t, *_ = lax.while_loop(lambda c: jnp.any(c[1] < 1) & (c[3] < 80), step, (x, jnp.zeros(16), jnp.full(16, 0.2), 0))
    return x, t


@net(array(96, 4), array(6, 4), args={"points": "data,-"}, mesh=LINE)
def k_means(points: Any, centers: Any) -> Any:
    """Ten rounds: the nearest center, and means of what is near."""

    def turn(_: Any, centers: Any) -> Any:
        which = jnp.argmin(jnp.sum((points[:, None] - centers) ** 2, -1), -1)
        total = jax.ops.segment_sum(points, which, 6)
        count = jax.ops.segment_sum(jnp.ones(96), which, 6)
        return jnp.where(count[:, None] > 0, total / jnp.maximum(count, 1)[:, None], centers)

    return lax.fori_loop(0, 10, turn, centers)


@net(array(96, 4), array(5, 4), args={"points": "data,-"}, mesh=ODD)
def gaussian_mixture(points: Any, means: Any) -> Any:
    """Expectation and maximization with full covariances, by Cholesky; six devices."""

    def turn(carry: Any, _: Any) -> Any:
        means, spread, weight = carry
        factor = jnp.linalg.cholesky(spread)
        gap = points[None] - means[:, None]
        solved = jax.scipy.linalg.solve_triangular(factor, gap.mT, lower=True)
        logs = jnp.log(weight) - 0.5 * jnp.sum(solved**2, 1).T
        logs = logs - jnp.log(jnp.diagonal(factor, axis1=1, axis2=2)).sum(-1)
        r = jax.nn.softmax(logs, -1)
        mass = r.sum(0) + 1e-3
        means = r.T @ points / mass[:, None]
        gap = points[None] - means[:, None]
        spread = jnp.einsum("pk,kpi,kpj->kij", r, gap, gap) / mass[:, None, None] + 0.3 * jnp.eye(4)
        return (means, spread, mass / mass.sum()), jax.nn.logsumexp(logs, -1).mean()

    start = (means, jnp.broadcast_to(jnp.eye(4), (5, 4, 4)), jnp.full(5, 0.2))
    return lax.scan(turn, start, length=5)


@net(array(32, 24), args={"costs": "data,model"})
def optimal_transport(costs: Any) -> Any:
    """Sinkhorn's iteration in logarithms: rows and columns in turn, both split."""

    def turn(_: Any, carry: Any) -> Any:
        f, g = carry
        f = -jax.nn.logsumexp(g - costs, 1) - jnp.log(32.0)
        return f, -jax.nn.logsumexp(f[:, None] - costs, 0) - jnp.log(24.0)

    f, g = lax.fori_loop(0, 10, turn, (jnp.zeros(32), jnp.zeros(24)))
    plan = jnp.exp(f[:, None] + g - costs)
    return plan, jnp.sum(plan * costs)


@net(array(32, 32), array(32, 32), args={"heat": "data,model", "source": "data,model"})
def heat_on_a_plate(heat: Any, source: Any) -> Any:
    """Twenty explicit steps of a stencil of five points, edges held at zero."""

    def step(_: Any, u: Any) -> Any:
        p = jnp.pad(u, 1)
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        return u + 0.2 * (around - 4 * u) + 0.01 * source

    return lax.fori_loop(0, 20, step, heat)


@net(array(24, 32, dtype=jnp.bool_), args={"cells": "data,model"}, mesh=ODD)
def game_of_life(cells: Any) -> Any:
    """Eight generations on a torus, by rolls; six devices."""

    def turn(_: Any, cells: Any) -> Any:
        one = cells.astype(jnp.int32)
        rows = one + jnp.roll(one, 1, 0) + jnp.roll(one, -1, 0)
        near = rows + jnp.roll(rows, 1, 1) + jnp.roll(rows, -1, 1) - one
        return (near == 3) | (cells & (near == 2))

    return lax.fori_loop(0, 8, turn, cells)


@net(array(64, 64), args={"f": "data,model"})
def multigrid(f: Any) -> Any:
    """A turn of the V: smooth, restrict, smooth there, interpolate back, smooth."""

    def smooth(u: Any, f: Any) -> Any:
        for _ in range(2):
            p = jnp.pad(u, 1)
            u = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + f) / 4
        return u

    def residual(u: Any, f: Any) -> Any:
        p = jnp.pad(u, 1)
        return f - (4 * u - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:])

    u = smooth(jnp.zeros_like(f), f)
    coarse = residual(u, f).reshape(32, 2, 32, 2).sum((1, 3))
    error = smooth(jnp.zeros((32, 32)), coarse)
    u = u + jnp.repeat(jnp.repeat(error, 2, 0), 2, 1)
    return smooth(u, f), residual(u, f)


@net(array(8, 40), array(8, 40), array(8, 40), args={"low": "data,-", "high": "data,-", "b": "data,-"}, mesh=LINE)
def tridiagonal_systems(low: Any, high: Any, b: Any) -> Any:
    """Thomas' algorithm: one scan down, one back."""
    diagonal = 2 + jnp.abs(low) + jnp.abs(high)

    def down(carry: Any, row: Any) -> Any:
        c, d = carry
        low, mid, high, b = row
        scale = 1 / (mid - low * c)
        new = high * scale, (b - low * d) * scale
        return new, new

    zeros = jnp.zeros(8)
    _, (c, d) = lax.scan(down, (zeros, zeros), (low.T, diagonal.T, high.T, b.T))

    def back(x: Any, row: Any) -> Any:
        x = row[1] - row[0] * x
        return x, x

    return lax.scan(back, zeros, (c, d), reverse=True)[1].T


@net(array(40, 24), array(40, 6), array(6, 24), args={"x": "data,model", "w": "data,-", "h": "-,model"})
def nonnegative_factors(x: Any, w: Any, h: Any) -> Any:
    """Multiplicative updates, eight times."""
    x, w, h = jnp.abs(x), jnp.abs(w) + 0.1, jnp.abs(h) + 0.1

    def turn(_: Any, carry: Any) -> Any:
        w, h = carry
        h = h * (w.T @ x) / (w.T @ w @ h + 1e-6)
        return w * (x @ h.T) / (w @ (h @ h.T) + 1e-6), h

    w, h = lax.fori_loop(0, 8, turn, (w, h))
    return w, h, jnp.linalg.norm(x - w @ h)


@net(array(48, 16), array(48), args={"a": "data,model", "b": "data"}, mesh=ODD)
def lasso(a: Any, b: Any) -> Any:
    """Alternating directions: a factor once, then soft thresholds; six devices."""
    factor = jnp.linalg.cholesky(a.T @ a + jnp.eye(16))
    right = a.T @ b

    def turn(carry: Any, _: Any) -> Any:
        z, u = carry
        x = jax.scipy.linalg.cho_solve((factor, True), right + z - u)
        z = jnp.sign(x + u) * jnp.maximum(jnp.abs(x + u) - 0.5, 0)
        return (z, u + x - z), None

    return lax.scan(turn, (jnp.zeros(16), jnp.zeros(16)), length=15)[0][0]


@net(array(8, 32, 32), args={"vorticity": "data,-,-"}, mesh=LINE)
def vortices(vorticity: Any) -> Any:
    """Four steps of flow in two dimensions, derivatives by Fourier transforms."""
    k = jnp.fft.fftfreq(32) * 32
    kx, ky = k[:, None], k[None]
    square = jnp.where(kx**2 + ky**2 == 0, 1, kx**2 + ky**2)

    def step(_: Any, w: Any) -> Any:
        waves = jnp.fft.fft2(w)
        stream = waves / square

        def real(a: Any) -> Any:
            return jnp.fft.ifft2(a).real

        flow = real(1j * ky * stream) * real(1j * kx * waves) - real(1j * kx * stream) * real(1j * ky * waves)
        return w - 1e-3 * (flow + 0.1 * real(square * waves))

    return lax.fori_loop(0, 4, step, vorticity)


@net(array(12, 8, 8), args={"a": "data,-,-"}, mesh=ODD)
def exponentials_of_matrices(a: Any) -> Any:
    """Scaled, a Padé quotient, squared again; and a solution of a linear equation by it."""
    small = a / 16
    eye = jnp.eye(8)
    square = small @ small
    even, odd = eye + square / 9 + square @ square / 1008, small @ (eye / 2 + square / 72)
    result = jnp.linalg.solve(even - odd, even + odd)
    for _ in range(2):
        result = result @ result
    return result, jnp.einsum("bij,j->bi", result, jnp.ones(8)), jnp.linalg.slogdet(eye + square)
