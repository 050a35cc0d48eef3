"""Everything in `jax.numpy.linalg` and `jax.scipy.linalg`, with arguments that it can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np

__all__ = ["CASES", "LinalgCase"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LinalgCase:
    """A function, and arrays that it is called with."""

    function: Callable[..., Any]
    arguments: tuple[Array, ...]


def _random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32)


def _matrices(*shape: int, seed: int = 0) -> Array:
    """Well away from singular, with real eigenvalues that lie apart."""
    size = shape[-1]
    apart = np.diag(np.arange(1, size + 1, dtype=np.float32))
    return (apart + 0.02 * _random(*shape, seed=seed)).astype(np.float32)


def _positive(*shape: int) -> Array:
    """Symmetric, with positive eigenvalues that lie apart."""
    matrices = _matrices(*shape)
    return ((matrices + matrices.swapaxes(-1, -2)) / 2).astype(np.float32)


def _lower(*shape: int) -> Array:
    return np.tril(_matrices(*shape)).astype(np.float32)


def _sylvester(a: Any, b: Any, c: Any) -> Any:
    return jsl.solve_sylvester(a, b, c, method="eigen")


_A, _B = _matrices(16, 16), _random(16, 8)
_BATCH, _TALL, _VECTOR = _matrices(8, 8, 8), _random(8, 16, 8), _random(16)
_COMPLEX = (_BATCH + 0.1j * _matrices(8, 8, 8, seed=1)).astype(np.complex64)

_NUMPY: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "cholesky": (jnp.linalg.cholesky, (_positive(8, 8, 8),)),
    "cond": (jnp.linalg.cond, (_BATCH,)),
    "cond/1": (lambda a: jnp.linalg.cond(a, 1), (_BATCH,)),
    "cross": (jnp.linalg.cross, (_random(16, 3), _random(16, 3, seed=1))),
    "det": (jnp.linalg.det, (_BATCH,)),
    "diagonal": (jnp.linalg.diagonal, (_TALL,)),
    "eig": (jnp.linalg.eig, (_BATCH,)),
    "eig/complex": (jnp.linalg.eig, (_COMPLEX,)),
    "eigh": (jnp.linalg.eigh, (_positive(8, 8, 8),)),
    "eigvals": (jnp.linalg.eigvals, (_BATCH,)),
    "eigvalsh": (jnp.linalg.eigvalsh, (_positive(8, 8, 8),)),
    "inv": (jnp.linalg.inv, (_BATCH,)),
    "inv/uneven": (jnp.linalg.inv, (_matrices(6, 10, 10),)),
    "lstsq": (jnp.linalg.lstsq, (_random(16, 8), _random(16, 4))),
    "matmul": (jnp.linalg.matmul, (_BATCH, _random(8, 8, 16))),
    "matrix_norm": (jnp.linalg.matrix_norm, (_TALL,)),
    "matrix_norm/nuc": (lambda a: jnp.linalg.matrix_norm(a, ord="nuc"), (_TALL,)),
    "matrix_power": (lambda a: jnp.linalg.matrix_power(a, 3), (_BATCH,)),
    "matrix_power/-2": (lambda a: jnp.linalg.matrix_power(a, -2), (_BATCH,)),
    "matrix_rank": (jnp.linalg.matrix_rank, (_BATCH,)),
    "matrix_transpose": (jnp.linalg.matrix_transpose, (_TALL,)),
    "multi_dot": (lambda a, b, c: jnp.linalg.multi_dot([a, b, c]), (_random(16, 8), _random(8, 32), _VECTOR.repeat(2))),
    "norm": (jnp.linalg.norm, (_TALL,)),
    "norm/inf": (lambda a: jnp.linalg.norm(a, ord=np.inf, axis=(1, 2)), (_TALL,)),
    "outer": (jnp.linalg.outer, (_VECTOR, _random(8))),
    "pinv": (jnp.linalg.pinv, (_TALL,)),
    "qr": (jnp.linalg.qr, (_TALL,)),
    "qr/complete": (lambda a: jnp.linalg.qr(a, mode="complete"), (_TALL,)),
    "qr/r": (lambda a: jnp.linalg.qr(a, mode="r"), (_TALL,)),
    "slogdet": (jnp.linalg.slogdet, (_BATCH,)),
    "slogdet/qr": (lambda a: jnp.linalg.slogdet(a, method="qr"), (_A,)),
    "solve": (jnp.linalg.solve, (_A, _B)),
    "solve/batch": (jnp.linalg.solve, (_BATCH, _random(8, 8, 4))),
    "svd": (jnp.linalg.svd, (_TALL,)),
    "svd/thin": (lambda a: jnp.linalg.svd(a, full_matrices=False), (_TALL,)),
    "svd/uneven": (jnp.linalg.svd, (_random(4, 6, 10),)),
    "svdvals": (jnp.linalg.svdvals, (_TALL,)),
    "tensordot": (lambda a, b: jnp.linalg.tensordot(a, b, axes=1), (_random(16, 8), _random(8, 16))),
    "tensorinv": (lambda a: jnp.linalg.tensorinv(a, ind=2), (_matrices(16, 16).reshape(2, 8, 16),)),
    "tensorsolve": (jnp.linalg.tensorsolve, (_matrices(16, 16).reshape(4, 4, 16), _random(4, 4))),
    "trace": (jnp.linalg.trace, (_TALL,)),
    "vecdot": (jnp.linalg.vecdot, (_B, _random(16, 8, seed=1))),
    "vector_norm": (lambda a: jnp.linalg.vector_norm(a, axis=1), (_TALL,)),
}

_SCIPY: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "block_diag": (jsl.block_diag, (_random(8, 8), _random(16, 8))),
    "cho_factor": (lambda a: jsl.cho_factor(a)[0], (_positive(16, 16),)),
    "cho_solve": (lambda c, b: jsl.cho_solve((c, True), b), (_lower(16, 16), _B)),
    "cholesky": (jsl.cholesky, (_positive(16, 16),)),
    "circulant": (jsl.circulant, (_TALL[0],)),
    "companion": (jsl.companion, (_random(9) + 3,)),
    "convolution_matrix": (lambda a: jsl.convolution_matrix(a, 8), (_VECTOR,)),
    "det": (jsl.det, (_BATCH,)),
    "dft": (lambda: jsl.dft(16), ()),
    "eigh": (jsl.eigh, (_positive(16, 16),)),
    "eigh/values": (lambda a: jsl.eigh(a, eigvals_only=True), (_positive(16, 16),)),
    "eigh_tridiagonal": (
        lambda d, e: jsl.eigh_tridiagonal(d, e, eigvals_only=True),
        (np.arange(16, dtype=np.float32), _random(15)),
    ),
    "expm": (jsl.expm, (_matrices(8, 8, 8) / 8,)),
    "expm_frechet": (jsl.expm_frechet, (_A / 16, _random(16, 16))),
    "fiedler": (jsl.fiedler, (_VECTOR,)),
    "fiedler_companion": (jsl.fiedler_companion, (_random(9) + 3,)),
    "funm": (lambda a: jsl.funm(a, jnp.sin, disp=False), (_A,)),
    "hadamard": (lambda: jsl.hadamard(16), ()),
    "hankel": (jsl.hankel, (_VECTOR, _random(8))),
    "helmert": (lambda: jsl.helmert(16), ()),
    "hessenberg": (jsl.hessenberg, (_A,)),
    "hessenberg/q": (lambda a: jsl.hessenberg(a, calc_q=True), (_BATCH,)),
    "hilbert": (lambda: jsl.hilbert(16), ()),
    "inv": (jsl.inv, (_BATCH,)),
    "invhilbert": (lambda: jsl.invhilbert(8), ()),
    "invpascal": (lambda: jsl.invpascal(8), ()),
    "leslie": (jsl.leslie, (_VECTOR, _random(15))),
    "lu": (jsl.lu, (_A,)),
    "lu_factor": (jsl.lu_factor, (_BATCH,)),
    "lu_solve": (lambda lu, p, b: jsl.lu_solve((lu, p), b), (_A, np.arange(16, dtype=np.int32)[::-1].copy(), _VECTOR)),
    "pascal": (lambda: jsl.pascal(8), ()),
    "polar": (jsl.polar, (_A,)),
    "polar/svd": (lambda a: jsl.polar(a, method="svd"), (_A,)),
    "qr": (jsl.qr, (_A,)),
    "qr/pivoting": (lambda a: jsl.qr(a, mode="economic", pivoting=True), (_random(16, 8),)),
    "qr_multiply": (jsl.qr_multiply, (_random(16, 8), _random(8, 16))),
    "rsf2csf": (jsl.rsf2csf, (np.triu(_A).astype(np.float32), np.eye(16, dtype=np.float32))),
    "schur": (jsl.schur, (_A,)),
    "schur/complex": (lambda a: jsl.schur(a, output="complex"), (_A,)),
    "solve": (jsl.solve, (_A, _B)),
    "solve/positive": (lambda a, b: jsl.solve(a, b, assume_a="pos"), (_positive(16, 16), _B)),
    "solve_sylvester": (_sylvester, (_A, _matrices(8, 8, seed=1), _B)),
    "solve_triangular": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (_lower(16, 16), _B)),
    "solve_triangular/T": (lambda a, b: jsl.solve_triangular(a, b, trans=1, lower=True), (_lower(16, 16), _B)),
    "sqrtm": (jsl.sqrtm, (_A,)),
    "svd": (jsl.svd, (_TALL,)),
    "toeplitz": (jsl.toeplitz, (_VECTOR, _random(8))),
}

CASES = {
    f"{room}.{name}": LinalgCase(*case)
    for room, cases in (("numpy", _NUMPY), ("scipy", _SCIPY))
    for name, case in cases.items()
}
"""By `numpy.` or `scipy.`, the name, and after a slash what is special."""
