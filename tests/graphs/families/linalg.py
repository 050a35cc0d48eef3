"""Transforms, factorizations and random numbers."""

from __future__ import annotations

from tests.graphs.families.moves import any_dim, has_rank, is_full
from tests.graphs.scope import Scope, step
from tests.graphs.values import Range, Value


@step("fft", lambda v: is_full(v) and v.dtype in ("float32", "complex64") and v.size <= 1024, weight=1.2)
def fft(scope: Scope, v: Value) -> None:
    dim = any_dim(scope, v)
    kinds = [f"jnp.fft.fft({v}, axis={dim})", f"jnp.fft.ifft({v}, axis={dim})"]
    if v.dtype == "float32":
        kinds.append(f"jnp.fft.rfft({v}, axis={dim})")
    if v.shape[dim] > 1 and v.dtype == "complex64":
        kinds.append(f"jnp.fft.irfft({v}, axis={dim})")
    if v.rank > 1:
        kinds.append(f"jnp.fft.fft2({v})")
    scope.emit(scope.rng.choice(kinds), Range(v.range.bound * v.size, 0.0))


def _is_matrix(value: Value) -> bool:
    return value.rank >= 2 and value.dtype == "float32" and 0 < value.shape[-1] <= 8 and 0 < value.shape[-2] <= 8


def _definite(v: Value) -> str:
    """A symmetric matrix that is far from singular."""
    size, spread = v.shape[-2], v.range.bound**2 * v.shape[-1] + 1
    return f"jnp.einsum('...ij,...kj->...ik', {v}, {v}) + {float(spread)} * jnp.eye({size})"


@step("cholesky", _is_matrix, weight=0.8)
def cholesky(scope: Scope, v: Value) -> None:
    scope.emit(f"jnp.linalg.cholesky({_definite(v)})", Range(v.range.bound * 16, 0.0))


@step("triangular solve", _is_matrix, weight=0.8)
def triangular_solve(scope: Scope, v: Value) -> None:
    lower, left, transposed = (scope.rng.random() < 0.5 for _ in range(3))
    matrix = f"{_definite(v)}"
    right = f"{v}" if left else f"jnp.swapaxes({v}, -1, -2)"
    text = f"lax.linalg.triangular_solve({matrix}, {right}, left_side={left}, lower={lower}, transpose_a={transposed})"
    scope.emit(text, Range(4.0, 0.0))


@step("solve", _is_matrix, weight=0.5)
def solve(scope: Scope, v: Value) -> None:
    scope.emit(f"jnp.linalg.solve({_definite(v)}, {v})", Range(4.0, 0.0))


@step("random", has_rank, weight=0.6)
def threefry(scope: Scope, _: Value) -> None:
    """Numbers of JAX's own generator, from a key that the program may have computed."""
    seed = scope.pick(lambda one: one.dtype == "int32" and one.rank == 0) or scope.rng.randrange(99)
    shape = tuple(scope.rng.choice(scope.writer.sizes) for _ in range(scope.rng.randint(1, 2)))
    if scope.rng.random() < 0.5:
        scope.emit(f"jax.random.bits(jax.random.key({seed}), {shape}, 'uint32')", Range(2.0**32))
    else:
        scope.emit(f"jax.random.uniform(jax.random.key({seed}), {shape})", Range(1.0, 0.0))


@step("random", has_rank, weight=0.6)
def bits(scope: Scope, v: Value) -> None:
    if not v.size or v.size > 1024:
        return
    state = f"jnp.array([1, {scope.rng.randrange(99)}, 3, 4], 'uint32')"
    text = f"jax.tree.leaves(lax.rng_bit_generator({state}, {v.shape}, 'uint32'))"
    scope.emit(text, Range(2.0**32))
