"""Functions of JAX's namespaces, called with whatever arguments they take.

Of each function some calls are tried, of arrays of a few shapes and types, and those that JAX can lower are kept; of
what has a gradient, that as well.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.fft
import jax.scipy.integrate
import jax.scipy.linalg
import jax.scipy.ndimage
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats
import numpy as np
from jax import lax

__all__ = ["Call", "calls", "functions"]

CALLS = 3
"""How many calls of a function are kept."""

_SPACES: dict[str, ModuleType] = {
    "jnp": jnp,
    "jnp.fft": jnp.fft,
    "jnp.linalg": jnp.linalg,
    "lax": lax,
    "nn": jax.nn,
    "random": jax.random,
    "image": jax.image,
    "ops": jax.ops,
    "scipy.fft": jax.scipy.fft,
    "scipy.integrate": jax.scipy.integrate,
    "scipy.linalg": jax.scipy.linalg,
    "scipy.ndimage": jax.scipy.ndimage,
    "scipy.signal": jax.scipy.signal,
    "scipy.special": jax.scipy.special,
    **{f"scipy.stats.{name}": one for name, one in vars(jax.scipy.stats).items() if inspect.ismodule(one)},
}
_OF_DEVICES = (
    *("all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin"),
    *("ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "pvary"),
)
_NO_COMPUTATIONS = (
    *("array_repr", "array_str", "can_cast", "frombuffer", "fromfile", "from_dlpack", "fromstring", "get_printoptions"),
    *("isdtype", "isscalar", "issubdtype", "load", "printoptions", "promote_types", "result_type", "save", "savez"),
    "set_printoptions",
)
_UNDEFINED = {
    "scipy.stats.wrapcauchy.pdf": "XLA for CPUs leaves memory as it was, for the exponential of what is no number",
}
"""Functions whose results are not told by their arguments, and why."""


class Call(NamedTuple):
    """A function of arrays, and arrays that it takes."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]


def functions() -> dict[str, Callable[..., Any]]:
    """All by name, in one order."""
    found: dict[str, Callable[..., Any]] = {}
    for space, module in _SPACES.items():
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            one, full = getattr(module, name, None), f"{space}.{name}"
            is_left = name.startswith("_") or name in (*_OF_DEVICES, *_NO_COMPUTATIONS) or full in _UNDEFINED
            is_left |= inspect.isclass(one) or (space == "lax" and name.endswith("_p"))
            if callable(one) and not is_left:
                found[full] = one
    return found


def calls(name: str, function: Callable[..., Any]) -> Iterator[Call]:
    """Some calls of a function, and their gradients."""
    for number, one in enumerate(islice(_lowered(function), CALLS)):
        yield Call(f"{name}/{number}", *one)
        if all(np.issubdtype(array.dtype, np.floating) for array in one[1]):
            gradient = jax.grad(_loss_of(one[0]), argnums=tuple(range(len(one[1]))))
            if _is_lowered(gradient, one[1]):
                yield Call(f"{name}/{number}/gradient", gradient, one[1])


def _lowered(function: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    for wrapped, arguments in _candidates(function):
        if _is_lowered(wrapped, arguments):
            yield wrapped, arguments


def _is_lowered(function: Callable[..., Any], arguments: tuple[np.ndarray, ...]) -> bool:
    """Whether JAX makes a program of it that gives arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            leaves = jax.tree.leaves(jax.eval_shape(function, *arguments))
            jax.jit(function).lower(*arguments)
        except Exception:  # of many kinds: the function does not take these
            return False
    return bool(leaves) and all(hasattr(leaf, "shape") for leaf in leaves)


def _loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def loss(*arguments: Any) -> Any:
        leaves = [leaf for leaf in jax.tree.leaves(function(*arguments)) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum([jnp.sum(jnp.square(jnp.real(leaf))) for leaf in leaves], jnp.float32(0))

    return loss


def _array(*shape: int, dtype: str = "float32") -> np.ndarray:
    rng = np.random.default_rng([*shape, len(dtype)])
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype == "int32":
        return rng.integers(0, 5, shape, dtype)
    if dtype == "complex64":
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    return rng.uniform(0.1, 0.9, shape).astype(dtype)


def _candidates(f: Callable[..., Any]) -> Iterator[tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """Calls that a function may take."""
    x, y, z, row = _array(8, 16), _array(8, 16) + 0.05, _array(8, 16) + 0.1, _array(16)
    wide, batch = _array(16, 8), _array(2, 8, 4, 16)
    whole, flag, both = (_array(8, 16, dtype=dtype) for dtype in ("int32", "bool", "complex64"))
    square = _array(8, 8) + 8 * np.eye(8, dtype=np.float32)
    square = square @ square.T
    for some in ((x,), (x, y), (x, wide), (whole,), (whole, whole + 1), (flag,), (flag, flag), (x, y, z), (square,)):
        yield lambda *a: f(*a), some
    for some in ((square, _array(8, 8)), (row,), (row, row), (row, row, row), (batch,)):
        yield lambda *a: f(*a), some
    yield lambda x: f(x, 1), (x,)
    yield lambda x: f(x, axis=1), (x,)
    yield lambda x: f(x, axis=0), (x,)
    yield lambda x: f(x, (16, 8)), (x,)
    yield lambda x: f((x, x)), (x,)
    yield lambda x: f(jax.random.key(0), x), (x,)
    yield lambda x: f(jax.random.key(0), shape=(8, 16)) + x, (x,)
    yield lambda x: f(x, 0, 1), (x,)
    yield lambda x: f(x, (0, 1)), (x,)
    yield lambda x: f(x, 0.3), (x,)
    yield lambda x, i: f(x, i), (row, whole)
    yield lambda x, i: f(x, i, 0), (x, _array(8, dtype="int32"))
    yield lambda x, i: f(x, i, 1), (x, whole)
    yield lambda i, x: f(i, x), (whole, x)
    yield lambda *a: f(*a), (both,)
    yield lambda *a: f(*a), (both, both)
    yield lambda x: f(x, (4, 32), "linear"), (x,)
    yield lambda *a: f(*a), (x, _array(3, 3))
